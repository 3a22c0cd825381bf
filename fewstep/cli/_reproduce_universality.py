"""`fewstep reproduce universality`"""

from pathlib import Path

from fewstep.cli import _show
from fewstep.reproduce import universality


def run_universality(
    out: Path, targets: tuple[str, ...], bins: int | None, examples: int | None, *, seed: int, quick: bool,
    resume: bool, overwrite: bool, as_json: bool,
) -> int:  # fmt: skip
    """Builds, measures and draws, and shows what was found."""
    plain = universality.QUICK if quick else universality.Scale()
    scale = plain._replace(
        targets=targets or plain.targets, bins=plain.bins if bins is None else bins, examples=examples, seed=seed
    )
    try:
        result = universality.reproduce(out, scale, _show.say, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        _show.say("Stopped; it takes about a minute. Start again with the same command and --overwrite.")
        return 130
    if as_json:
        _show.as_json(result)
        return 0
    _show.table(universality.HEAD, universality.table_rows(result["rows"]))
    _show.say(f"{scale.describe()}. See {result['report']}; the numbers are in {out / 'result.json'}.")
    return 0
