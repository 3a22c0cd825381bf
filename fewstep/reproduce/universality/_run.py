"""Builds the constructions, measures and draws them; a minute in all, so it is done in one go."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax

from fewstep.files import finite, write_json
from fewstep.reproduce import _folder
from fewstep.reproduce._figure import Figure
from fewstep.reproduce._run import made_with
from fewstep.reproduce.universality import _figures, _measure, _report
from fewstep.universality import Target
from fewstep.universality.construct import construct
from fewstep.universality.plan import Plan
from fewstep.universality.targets import EXAMPLES, TARGETS, target_of

NAME = "universality"
_TWO = "nearest-neighbor with two examples, since with one its answer is always y."


class Scale(NamedTuple):
    """What is built: the targets, the bins of x and of x*, and how many bins the error is measured for."""

    targets: tuple[str, ...] = tuple(TARGETS)
    bins: int = 8
    examples: int | None = None
    seed: int = 0
    quick: bool = False

    def series(self, examples: int) -> tuple[int, ...]:
        """Numbers of bins to compare: up to twice those asked for, with several examples up to those; each example has
        a bin of its own."""
        most = (1 if self.quick or examples > 1 else 2) * self.bins
        return tuple(sorted({self.bins, *(count for count in (2, 4, 8, 16, 32) if examples <= count <= most)}))

    def plan(self, target: str) -> Plan:
        """The plan of a target, with as many examples as it needs to be interesting."""
        return Plan(bins=self.bins, examples=EXAMPLES.get(target, 1) if self.examples is None else self.examples)

    def describe(self) -> str:
        """The scale in words."""
        return f"{self.bins} bins of x and of x*, {self.bins**2 + 2:,} layers"


QUICK = Scale(bins=4, quick=True)


def reproduce(
    folder: Path, scale: Scale, say: Callable[[str], None], *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Builds and measures every target in double precision; writes `result.json` and `report.html`."""
    made = {name: (target_of(name), scale.plan(name)) for name in scale.targets}
    with _folder.held({"study": NAME, **scale._asdict()}, folder, resume=resume, overwrite=overwrite):
        begin = time.monotonic()
        say(f"{NAME}: {', '.join(f'{name} with {plan.n_layers} layers' for name, (_, plan) in made.items())}")
        with ThreadPoolExecutor() as pool:  # most of the time is compiling, which leaves other threads alone
            found = list(pool.map(lambda name: _one(name, *made[name], scale), made))
        with jax.enable_x64(True):
            rows = [row for of_target, _ in found for row in of_target] + _measure.loss_rows()
            figures = [figure for _, drawn in found for figure in drawn]
            say(f"{NAME}: pictures")
            figures += [
                _figures.against_bins(rows),
                _figures.information(*min(made.values(), key=lambda pair: pair[1].examples)),
            ]
            return _tell(folder, scale, rows, figures, time.monotonic() - begin)


def _one(name: str, target: Target, plan: Plan, scale: Scale) -> tuple[list[dict[str, Any]], list[Figure]]:
    with jax.enable_x64(True):  # it holds for one thread
        built = construct(target, plan, seed=scale.seed)
        rows = [*_measure.layers_rows(name, built), *_measure.step_rows(name, target, plan, built, quick=scale.quick)]
        if name == scale.targets[0]:  # the layers do not know the target
            rows += _measure.relu_rows(name, target, plan, built)
        rows += _measure.bins_rows(name, target, plan, scale.series(plan.examples), smooth=name == "ridge")
        if name == scale.targets[-1] and not scale.quick:  # training a read-out takes a while, and one will do
            rows.append(_measure.perceptron_row(name, target, plan))
        return rows, [_figures.side_by_side(name, target, built)]


def _tell(
    folder: Path, scale: Scale, rows: list[dict[str, Any]], figures: list[Figure], seconds: float
) -> dict[str, Any]:
    plain = QUICK if scale.quick else Scale()
    words = [f"fewstep reproduce {NAME}", "--quick" if scale.quick else ""]
    words += [f"--bins {scale.bins}"] if scale.bins != plain.bins else []
    words += [f"--examples {scale.examples}"] if scale.examples else []
    words += [f"--target {' '.join(scale.targets)}"] if scale.targets != tuple(TARGETS) else []
    protocol = (
        f"{scale.describe()}; double precision; alpha 0.1 and epsilon 0.1 unless told; errors at 60 drawn examples; "
        + (f"{scale.examples} examples." if scale.examples else _TWO)
    )
    result = finite({
        "name": NAME, "protocol": protocol, "quick": scale.quick, "scale": scale._asdict(), "rows": rows,
        "command": " ".join(word for word in words if word), **made_with(), "total_seconds": seconds,
        "report": str(folder / "report.html"),
    })  # fmt: skip
    write_json(folder / "result.json", result)
    _report.write(folder, result, figures, f"quick run: {scale.describe()}" if scale.quick else "")
    return result
