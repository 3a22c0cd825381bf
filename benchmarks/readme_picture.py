"""Draws docs/images/adaptation.svg, the README's picture, from the runs that `make demo` made."""

import sys
from pathlib import Path

from fewstep import FewstepError
from fewstep._streams import UNSEEN
from fewstep.problems import draw_tasks
from fewstep.reports import sketches
from fewstep.runs import load

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "adaptation.svg"


def main(runs: Path = Path("runs/demo")) -> None:
    models = {method: load(runs / method) for method in ("mtnet", "maml")}
    _, picture = draw_tasks(models["mtnet"].problem, sketches(models, 5), UNSEEN, n_tasks=3)
    TARGET.write_text(f'<?xml version="1.0"?>\n{picture}')


if __name__ == "__main__":
    try:
        main()
    except FewstepError as error:
        sys.exit(f"{error} Run `make demo` first.")
