"""Several processes that train one run: what they agree on, and how they end together.

Each holds the whole state and works on its share of the tasks. Process 0 decides when to save and when to stop, and is
the only one that writes files beside the checkpoints. What is decided travels through the key-value store of JAX's
distributed runtime, before there are devices and without them.
"""

import itertools
import json
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import distributed  # its client is what Orbax uses too; JAX has no public name for it
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, PartitionSpec

from fewstep._errors import FewstepError
from fewstep.compute import everywhere
from fewstep.files import JSON
from fewstep.machine.devices import Layout, on_cpu

DEVICES = "FEWSTEP_DEVICES"  # of each process, set by `fewstep launch`
_MAX_DECISIONS = 100  # decisions that are kept for processes that are slow to read them
_POLL_MS = 1000
_STOP, _REFUSED, _LEAVING = "fewstep/stop", "fewstep/refused", "fewstep/left/"
_OF_THE_LOST = ("Gloo", "NCCL", "oordination", "arrier", "Connection", "Socket closed", "heartbeat")
_numbers = itertools.count()


class Refused(FewstepError):
    """What another process refused: said there, and reported to all."""


def several() -> bool:
    """Whether this process is one of several; asks nothing of the devices."""
    return distributed.global_state.client is not None and distributed.global_state.num_processes > 1


def index() -> int:
    """The number of this process: 0 when it is alone."""
    return distributed.global_state.process_id if several() else 0


def count() -> int:
    """How many processes there are."""
    return distributed.global_state.num_processes if several() else 1


def first() -> bool:
    """Whether this is process 0, which decides and writes; a process that is alone is."""
    return index() == 0


def agree(value: JSON) -> JSON:
    """Process 0's value in every process; it must be plain data. All processes have to come here."""
    if not several():
        return value
    number, client = next(_numbers), _client()
    if not first():
        return json.loads(_heard(f"fewstep/agreed/{number}"))
    client.key_value_set(f"fewstep/agreed/{number}", json.dumps(value))
    if number >= _MAX_DECISIONS:
        client.key_value_delete(f"fewstep/agreed/{number - _MAX_DECISIONS}")
    return value


def request_stop(stop: bool) -> bool:
    """Informs process 0 that this process was asked to stop; in process 0, whether any was."""
    if not several():
        return stop
    if not first():
        if stop:
            _client().key_value_set(_STOP, "", allow_overwrite=True)
        return stop
    return stop or _look_up(_STOP) is not None


def refuse(message: str) -> None:
    """Tells the others why this process ends, as far as they can still hear it."""
    try:
        _client().key_value_set(_REFUSED, message, allow_overwrite=True)
    except JaxRuntimeError:
        return


def refused() -> str | None:
    """Why another process ended, if it could say."""
    try:
        return _look_up(_REFUSED)
    except JaxRuntimeError:
        return None


def lost(error: BaseException) -> bool:
    """Whether an error says that another process is gone: refused by it, or the runtime's own words."""
    if not several() or isinstance(error, FewstepError):
        return isinstance(error, Refused)
    return any(word in str(error) for word in _OF_THE_LOST)


def leave() -> int:
    """Notes that this process ends before its time, and says how many have noted it."""
    try:
        _client().key_value_set(f"{_LEAVING}{index()}", "", allow_overwrite=True)
        return len(_client().key_value_dir_get(_LEAVING))
    except JaxRuntimeError:
        return 0


def make_mesh(devices: int) -> Mesh:
    """A mesh with one axis, `tasks`, of that many devices of each process."""
    chosen: list[jax.Device] = []
    for number in range(jax.process_count()):
        own = [device for device in jax.devices() if device.process_index == number]
        if len(own) < devices:
            raise FewstepError(
                f"Each process is to use {devices} devices, and process {number} has {len(own)}. Use --devices "
                f"{len(own)}, or give that process more."
            )
        chosen += own[:devices]
    mesh = Mesh(np.asarray(chosen), ("tasks",))
    _connect(mesh)
    return mesh


def _connect(mesh: Mesh) -> None:
    """A first sum over all devices, once all processes are here: CPU collectives connect in it, in 30 s or never."""
    _meet()
    add = jax.shard_map(
        lambda x: jax.lax.psum(x, "tasks"), mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec()
    )
    jax.block_until_ready(jax.jit(add)(everywhere(jnp.zeros(()), mesh)))


def _meet() -> None:
    """Waits until all processes are here, or one has refused; a barrier of the runtime would not hear that."""
    here = f"fewstep/here/{next(_numbers)}/"
    _client().key_value_set(f"{here}{index()}", "")
    while first() and len(_client().key_value_dir_get(here)) < count():
        _raise_if_refused()
        time.sleep(0.05)
    agree(True)


def agreed_layout(chosen: Layout, *, explicit: bool) -> Layout:
    """The layout of process 0: the devices that the user chose (`explicit`), that the environment names, or `chosen`.
    Of several processes with other than host devices, each uses all it sees."""
    if not explicit and DEVICES in os.environ:
        if not os.environ[DEVICES].isdecimal() or int(os.environ[DEVICES]) < 1:
            raise FewstepError(f"{DEVICES} is {os.environ[DEVICES]!r}. Give a number from 1 on, or unset it.")
        chosen = chosen._replace(devices=int(os.environ[DEVICES]))
    elif not explicit and several() and not on_cpu():
        chosen = chosen._replace(devices=jax.local_device_count())
    return Layout(*agree(chosen))


def _client() -> Any:
    return distributed.global_state.client


def _heard(key: str) -> str:
    while True:
        try:
            return _client().blocking_key_value_get(key, _POLL_MS)
        except JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
        _raise_if_refused()


def _raise_if_refused() -> None:
    if (reason := refused()) is not None:
        raise Refused(reason)


def _look_up(key: str) -> str | None:
    try:
        return _client().key_value_try_get(key)
    except JaxRuntimeError as error:
        if "NOT_FOUND" not in str(error):
            raise
        return None
