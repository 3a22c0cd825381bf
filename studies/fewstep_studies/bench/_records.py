"""What the bench measures, as records; and the only place that turns them into the JSON of `fewstep bench --json`."""

from typing import NamedTuple

from fewstep.files import JSON


class Row(NamedTuple):
    """A system on a workload; `None` for what was not measured.

    `spread` is the lowest and the highest rate of the turns; `base_mb` is the memory before the start. `along` and
    `at` are what a sweep varies, and its value.
    """

    workload: str
    system: str
    steps_per_s: float | None = None
    error: str | None = None
    spread: tuple[float, float] | None = None
    compile_s: float | None = None
    turns: int | None = None
    peak_mb: float | None = None
    base_mb: float | None = None
    adapt_p50_ms: float | None = None
    adapt_p99_ms: float | None = None
    about: str | None = None
    tasks: int | None = None
    inner_steps: int | None = None
    loss_differs: float | None = None
    gradient_differs: float | None = None
    agrees: bool | None = None
    ratio_to_fewstep: float | None = None
    along: str | None = None
    at: int | None = None


class Roof(NamedTuple):
    """Operations of a step, their rate, that of a large matrix product, and the ratio of the two rates."""

    gflop: float
    gflops: float
    matmul_gflops: float
    fraction: float


class Startup(NamedTuple):
    """Seconds to import fewstep, and to the end of the first training step, at a first and a second start."""

    import_s: float
    first_step_s: float
    first_step_again_s: float


class Result(NamedTuple):
    """All measurements of a bench; `roofline` is by workload."""

    rows: list[Row]
    matmul_gflops: float
    roofline: dict[str, Roof]
    sweeps: list[Row]
    beginning: Startup | None
    images: str
    quick: bool


def to_json(result: Result) -> dict[str, JSON]:
    """The result as a JSON object."""
    main = result.roofline.get("omniglot-1")
    return result._asdict() | {
        "rows": [row._asdict() for row in result.rows],
        "roofline": {name: roof._asdict() for name, roof in result.roofline.items()},
        "roofline_fraction": main.fraction if main else None,
        "sweeps": [row._asdict() for row in result.sweeps],
        "beginning": result.beginning._asdict() if result.beginning else None,
    }


def from_json(content: dict[str, JSON]) -> Result:
    """The result that `to_json` wrote."""
    return Result(
        [Row(**row) for row in content["rows"]],
        content["matmul_gflops"],
        {name: Roof(**roof) for name, roof in content["roofline"].items()},
        [Row(**row) for row in content["sweeps"]],
        Startup(**content["beginning"]) if content["beginning"] else None,
        content["images"],
        content["quick"],
    )
