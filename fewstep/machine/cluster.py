"""Which process of how many this one is: by flags or environment variables, or as SLURM, Open MPI, Kubernetes say."""

import importlib.util
from collections.abc import Mapping
from typing import NamedTuple

from fewstep._errors import FewstepError

COORDINATOR, PROCESSES, PROCESS = "FEWSTEP_COORDINATOR", "FEWSTEP_PROCESSES", "FEWSTEP_PROCESS"
_FIX = "Give --coordinator HOST:PORT, --processes N and --process I (0 to N - 1), or none of them."
# Of srun's step, not of the allocation: a shell in an allocation of many tasks is one process all the same.
_SLURM = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")
_MPI = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")


class Place(NamedTuple):
    """The address all processes meet at, how many there are, and which one this is; `None` is for JAX to find out."""

    coordinator: str | None
    processes: int | None
    process: int | None


def find_place(
    coordinator: str | None, processes: int | None, process: int | None, environment: Mapping[str, str]
) -> Place | None:
    """The place of this process among several, or `None` when it is alone. What flags leave open, the environment
    says."""
    coordinator = coordinator or environment.get(COORDINATOR)
    processes = _number(environment, PROCESSES) if processes is None else processes
    process = _number(environment, PROCESS) if process is None else process
    if coordinator == "none" or (coordinator is None and processes is None and process is None):
        return None if coordinator == "none" else _detected(environment)
    if coordinator == "auto":
        return Place(None, processes, process)
    counted = _counted(environment)
    if counted is not None:
        processes = counted[0] if processes is None else processes
        process = counted[1] if process is None else process
    return _checked(coordinator, processes, process)


def local_device(environment: Mapping[str, str]) -> list[int] | None:
    """The device of this process on its machine, where a launcher has started one process for each; else all."""
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if _counted(environment) is not None and (number := _number(environment, name)) is not None:
            return [number]
    return None


def _detected(environment: Mapping[str, str]) -> Place | None:
    counted = _counted(environment)
    if counted is not None:
        if _MPI[0] in environment and "OMPI_MCA_orte_hnp_uri" not in environment and _SLURM[0] not in environment:
            raise FewstepError(
                f"mpirun started {counted[0]} processes and gives no address to meet at: Open MPI 5 has none. Give "
                "one, the host of the first process and a free port: --coordinator HOST:PORT. To train alone: "
                "--coordinator none."
            )
        return Place(None, *counted)
    indexed = "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment
    # JAX asks Kubernetes itself through this package; without it, the manifest has to say it.
    return Place(None, None, None) if indexed and importlib.util.find_spec("kubernetes") else None


def _counted(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """How many processes a launcher started, and which one this is, if it started several."""
    for count, index in (_SLURM, _MPI):
        if (environment.get(count) or "1") != "1" and index in environment:
            number, own = _number(environment, count), _number(environment, index)
            assert number is not None
            assert own is not None
            return number, own
    return None


def _checked(coordinator: str | None, processes: int | None, process: int | None) -> Place | None:
    given = {"--coordinator": coordinator, "--processes": processes, "--process": process}
    if missing := [name for name, value in given.items() if value is None]:
        there = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
        raise FewstepError(f"{there} is given without {' and '.join(missing)}. {_FIX}")
    assert coordinator is not None
    assert processes is not None
    assert process is not None
    if processes < 1:
        raise FewstepError(f"--processes is {processes}. It must be at least 1.")
    if not 0 <= process < processes:
        raise FewstepError(
            f"--process is {process} and --processes is {processes}. Processes are counted from 0: give 0 to "
            f"{processes - 1}."
        )
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise FewstepError(f"--coordinator is {coordinator!r}. It must be HOST:PORT, such as 10.0.0.1:12345.")
    return Place(coordinator, processes, process) if processes > 1 else None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name)
    if value is None:
        return None
    if not value.isdigit():
        raise FewstepError(f"The environment variable {name} is {value!r}. It must be a number, 0 or larger.")
    return int(value)
