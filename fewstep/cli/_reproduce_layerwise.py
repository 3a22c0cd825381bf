"""`fewstep reproduce layerwise`"""

from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.cli import _show

_MOST_SEED = 2**31 // 1000


def run_layerwise(
    out: Path, *, data_dir: Path | None, quick: bool, seed: int, folds: int | None, untimed: bool,
    only: tuple[str, ...], resume: bool, overwrite: bool, as_json: bool,
) -> int:  # fmt: skip
    """Runs the table and shows it."""
    try:
        from fewstep.reproduce import layerwise
    except ImportError as error:
        raise FewstepError(f"{error}") from None
    if not 0 <= seed <= _MOST_SEED:
        raise FewstepError(
            f"--seed is {seed}. Give 0 to {_MOST_SEED}: a fold's seed is 1000 times it, and scikit-learn takes 32 bits."
        )
    _show.watch_data(data_dir)
    scale = (layerwise.QUICK if quick else layerwise.Scale())._replace(seed=seed, only=only, untimed=untimed)
    if folds is not None:
        if folds < 2:
            raise FewstepError(f"--folds is {folds}. It must be at least 2.")
        scale = scale._replace(folds=folds)
    try:
        result = layerwise.reproduce(out, scale, _show.say, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        _show.say(f"Stopped; the folds that are done are safe in {out}. Go on with the same command and --resume.")
        return 130
    if as_json:
        _show.as_json(result)
        return 0
    for name, (head, rows) in layerwise.tables(result).items():
        if name in ("poster", "scores"):
            _show.table(head, rows)
    _show.say(f"{scale.describe().capitalize()}. See {result['report']}; the numbers are in {out / 'result.json'}.")
    return 0
