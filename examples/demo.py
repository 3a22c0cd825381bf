"""Meta-trains an MT-net and a MAML on sine waves side by side, compares them, and draws what they do on new waves."""

import dataclasses
import sys
from pathlib import Path

import tyro

from fewstep import Experiment, FewstepError
from fewstep.cli import scores_table, show_progress
from fewstep.reports import scores, write_report
from fewstep.runs import create_run, load, train_run


@dataclasses.dataclass(frozen=True)
class Demo:
    """Meta-train an MT-net and a MAML on sine waves, and compare them on waves they have not seen."""

    steps: int = 30_000
    """Outer steps of each; the papers take 60,000."""
    run: Path = Path("runs/demo")
    """Folder for the two runs and the report."""


def main(demo: Demo) -> int:
    models = {}
    for method in ("mtnet", "maml"):
        run = create_run(demo.run / method, Experiment(method, "sinusoid", steps=demo.steps))
        with show_progress(f"{method:5} on sinusoid") as progress:
            if train_run(run, progress).interrupted:
                print("Stopped. Run the same command to go on.", file=sys.stderr)
                return 130
        models[method] = load(run.path)
    print("Evaluating both on 600 new waves ...", file=sys.stderr)
    rows = scores(models)
    report = write_report(demo.run / "report.html", models, rows)
    print("\nMean squared error on new waves, learned from 10 points, after 0, 1 and 5 gradient steps:\n")
    scores_table(rows)
    print(f"\nSee what both do on new waves: {report}")
    print(f"Play with them in your browser: {Path(sys.executable).with_name('fewstep')} play --runs {demo.run}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(tyro.cli(Demo)))
    except FewstepError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
