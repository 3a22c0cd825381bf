"""Draws docs/images/adaptation.svg, the README's picture, from the runs that `make demo` made."""

import sys
from pathlib import Path

from fewstep import FewstepError
from fewstep.reports.plots import adaptation
from fewstep.runs import load

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "adaptation.svg"


def main(runs: Path = Path("runs/demo")) -> None:
    models = {method: load(runs / method) for method in ("mtnet", "maml")}
    TARGET.write_text('<?xml version="1.0"?>\n' + adaptation(models, steps=5, n_tasks=3))


if __name__ == "__main__":
    try:
        main()
    except FewstepError as error:
        sys.exit(f"{error} Run `make demo` first.")
