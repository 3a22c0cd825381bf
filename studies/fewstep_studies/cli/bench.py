"""`fewstep bench`"""

import dataclasses
from pathlib import Path
from typing import Annotated

from fewstep.cli import NO_HINT, print_json, print_table, say, watch_data
from fewstep_studies import bench

_PEERS = Path(".venv-bench/bin/python")


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure meta-steps per second, memory and latency here, beside other libraries where they are installed.

    `make bench` sets the others up in an environment of their own. Keep the machine quiet while it runs.

    Examples of use:
      fewstep bench --quick
      fewstep bench --workloads sine-1 omniglot-1 --systems 'torch.func vmap' jax-meta
      fewstep bench --sweeps --json
    """

    workloads: tuple[str, ...] = ()
    """Of sine-1, sine-5, omniglot-1, omniglot-5 (inner steps) and omniglot-20way (default: all)."""
    systems: tuple[str, ...] = ()
    """Systems beside fewstep: 'fewstep MT-net', 'torch.func vmap', torch.compile, 'PyTorch loop', higher, torchopt,
    jax-meta (default: all that are installed)."""
    sweeps: bool = False
    """Also how time and memory grow with tasks, inner steps, width and devices, and how long a start takes."""
    quick: bool = False
    """A look, marked as such: short turns. Other libraries take most of its minutes to compile."""
    peers: Annotated[Path | None, NO_HINT] = None
    """A Python that has the other libraries (default: that of .venv-bench, if it is there)."""
    out: Path = Path("runs/bench")
    """Folder of the result, the report and its figures."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for Omniglot in (default: the variable FEWSTEP_DATA); without it noise of its size is taken."""
    seed: int = 0
    """Seed of the weights and tasks."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        watch_data(self.data_dir)
        peers = self.peers or (_PEERS if _PEERS.exists() else None)
        if peers is not None and peers.is_dir():  # an environment: its Python
            peers = peers / "bin" / "python"
        choice = bench.Choice(self.workloads, self.systems, self.sweeps, self.quick, self.seed, peers)
        result, content = bench.run(choice, self.out, say)
        if self.json:
            print_json(content)
            return 0
        print_table(bench.HEAD, bench.table_rows(result.rows))
        for line in bench.remarks(result):
            say(line)
        say(f"See {content['report']}; the numbers are in {self.out / 'result.json'}.")
        return 0
