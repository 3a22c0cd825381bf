"""Shim until the core's outers are merged."""
from collections.abc import Callable
from fewstep._outer import Outer, first_order as first_order, refuse_without_signal as refuse_without_signal, reptile as reptile, unrolled as unrolled
OUTERS: dict[str, Callable[..., Outer]] = {"unrolled": lambda: unrolled, "first_order": lambda: first_order, "reptile": reptile}
