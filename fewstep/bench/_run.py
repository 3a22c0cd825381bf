"""The whole bench: workloads one after the other, a roofline, sweeps; the result as JSON, a table and plots."""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fewstep._errors import FewstepError, unknown
from fewstep.bench import _report
from fewstep.bench._measure import Effort, measure
from fewstep.bench._problem import write_images
from fewstep.bench._roofline import matmul_gflops, step_gflop
from fewstep.bench._sweeps import beginning, grow
from fewstep.bench._system import KINDS, OURS, present
from fewstep.bench._workloads import WORKLOADS
from fewstep.files import finite, write_json
from fewstep.reproduce import made_with

NAME = "bench"
_QUICK = Effort(turns=3, seconds=0.2, calls=30)


class Options(NamedTuple):
    """What is measured: workloads and systems by name (all by default), `sweeps` too; `quick` is a look; `peers` is a
    Python that has the other libraries."""

    workloads: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    sweeps: bool = False
    quick: bool = False
    seed: int = 0
    peers: Path | None = None


def run(options: Options, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures, and writes `result.json`, `report.html` and the figures into a folder."""
    works, kinds = _chosen(options, say)
    effort = _QUICK if options.quick else Effort()
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    roofs: dict[str, Any] = {}
    products: list[float] = []
    grown: list[dict[str, Any]] = []
    folder.mkdir(parents=True, exist_ok=True)

    def tell(begun: dict[str, Any] | None = None) -> dict[str, Any]:
        """Writes what is measured so far; a bench that is stopped has lost nothing but the rest."""
        result = _result(options, folder, rows, roofs, products, grown, begun, images)
        result |= {"effort": effort._asdict(), "total_seconds": time.monotonic() - begin}
        write_json(folder / "result.json", result := finite(result))
        _report.write(folder, result)
        return result

    with tempfile.TemporaryDirectory() as held:
        place = Path(held)
        images = write_images(place)
        for name in works:
            products.append(matmul_gflops())
            rows += measure(WORKLOADS[name].but(seed=options.seed), kinds, place, options.peers, effort, say)
            roofs |= _roof(name, rows, products[-1])
            tell()
        shorter = effort._replace(turns=3, seconds=effort.seconds / 2, calls=5)
        grown += grow(place, options.peers, shorter, say) if options.sweeps else []
    return tell(beginning(say) if options.sweeps else None)


def _result(
    options: Options, folder: Path, rows: list[dict[str, Any]], roofs: dict[str, Any], products: list[float],
    grown: list[dict[str, Any]], begun: dict[str, Any] | None, images: str,
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": NAME, "rows": rows, "matmul_gflops": sorted(products)[len(products) // 2],
        "roofline_fraction": roofs.get("omniglot-1", {}).get("fraction"), "roofline": roofs, "sweeps": grown,
        "beginning": begun, "images": images, "quick": options.quick,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores", "command": _command(options), **made_with(),
        "scale": {"seed": options.seed}, "report": str(folder / "report.html"),
    }  # fmt: skip


def _chosen(options: Options, say: Callable[[str], None]) -> tuple[list[str], list[Any]]:
    for asked in options.workloads:
        if asked not in WORKLOADS:
            raise unknown("workload", asked, WORKLOADS)
    names = [kind.name for kind in KINDS]
    for asked in options.systems:
        if asked not in names:
            raise unknown("system", asked, names)
    wanted = [kind for kind in KINDS if not options.systems or kind.name in (OURS, *options.systems)]
    kinds = [kind for kind in wanted if present(kind, options.peers)]
    if absent := [kind.name for kind in wanted if kind not in kinds]:
        if options.systems:
            raise FewstepError(f"{', '.join(absent)} cannot be measured: {_remedy(options.peers)}")
        say(f"Not measured: {', '.join(absent)}. {_remedy(options.peers)}")
    return list(options.workloads) or list(WORKLOADS), kinds


def _remedy(peers: Path | None) -> str:
    where = f"{peers} lacks them" if peers and peers.exists() else "no Python with the other libraries is there"
    return f"{where}. `make bench` makes one; or name yours with --peers."


def _roof(name: str, rows: list[dict[str, Any]], product: float) -> dict[str, Any]:
    """Of a workload with one inner step: its operations, and which share of a matrix product's rate ours reaches."""
    work = WORKLOADS[name]
    flop = step_gflop(work)
    ours = next(row for row in rows if row["workload"] == work.name and row["system"] == OURS)
    if flop is None or not ours["steps_per_s"]:
        return {}
    rate = flop * ours["steps_per_s"]
    return {name: {"gflop": flop, "gflops": rate, "matmul_gflops": product, "fraction": rate / product}}


def _command(options: Options) -> str:
    words = ["fewstep bench", *(["--workloads", *options.workloads] if options.workloads else [])]
    words += ["--systems", *(repr(name) for name in options.systems)] if options.systems else []
    words += ["--seed", str(options.seed)] if options.seed else []
    words += ["--sweeps"] * options.sweeps + ["--quick"] * options.quick
    return " ".join(words)
