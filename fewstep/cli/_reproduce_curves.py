"""`fewstep reproduce curves`"""

from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.cli import _show


def run_curves(
    out: Path, *, data_dir: Path | None, quick: bool, seed: int, steps: int | None, only: tuple[str, ...], resume: bool,
    overwrite: bool, as_json: bool,
) -> int:  # fmt: skip
    """Runs the comparison and shows it."""
    from fewstep.reproduce import curves

    _show.watch_data(data_dir)
    scale = (curves.QUICK if quick else curves.Scale())._replace(seed=seed, only=only)
    if steps is not None:
        if steps < 1:
            raise FewstepError(f"--steps is {steps}. It must be at least 1.")
        scale = scale._replace(steps=steps)
    try:
        result = curves.reproduce(out, scale, _show.say, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        _show.say(f"Stopped; the cells that are done are safe in {out}. Go on with the same command and --resume.")
        return 130
    if as_json:
        _show.as_json(result)
        return 0
    for head, rows in curves.tables(result).values():
        _show.table(head, rows)
    _show.say(f"{scale.describe().capitalize()}. See {result['report']}; the numbers are in {out / 'result.json'}.")
    return 0
