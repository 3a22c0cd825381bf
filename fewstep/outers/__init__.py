"""How the outer gradient is taken: outers by name, each made by a factory with its own options."""

from collections.abc import Callable

from fewstep._outer import Outer
from fewstep.outers.annealed import annealed as annealed
from fewstep.outers.evolution import evolution as evolution
from fewstep.outers.first_order import first_order as first_order
from fewstep.outers.hardest import hardest as hardest
from fewstep.outers.implicit import implicit as implicit
from fewstep.outers.reinforce import reinforce as reinforce
from fewstep.outers.reptile import refuse_without_signal as refuse_without_signal
from fewstep.outers.reptile import reptile as reptile
from fewstep.outers.robust import robust as robust
from fewstep.outers.sharp import sharp as sharp
from fewstep.outers.unrolled import unrolled as unrolled

# An outer without options is a value that users pass as it is; a factory of it has nothing to choose.
OUTERS: dict[str, Callable[..., Outer]] = {
    "unrolled": lambda: unrolled,
    "first_order": lambda: first_order,
    "reptile": reptile,
    "implicit": implicit,
    "evolution": evolution,
    "reinforce": reinforce,
    "sharp": sharp,
    "hardest": hardest,
    "annealed": annealed,
}
