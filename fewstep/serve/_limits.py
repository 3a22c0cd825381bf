"""How much one request, and all of them together, may ask for; and the few sizes that programs are compiled for."""

import dataclasses
from bisect import bisect_left

from fewstep._errors import FewstepError

TASKS = (1, 4, 16, 64)  # tasks of one compiled call
POINTS = (16, 64, 256, 1024)
PICTURES = (8, 16, 32, 64, 128, 256)  # a convolution of padding costs as much as that of an image
SAMPLES = (1, 16, 64)
STEPS = (1, 10, 100)  # a task of few steps does not wait for one of many: they are gathered apart


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of the service."""

    points: int = 256
    queries: int = 1024
    steps: int = 100
    samples: int = 64
    ways: int = 20
    body: int = 4 << 20
    requests: int = 512
    seconds: float = 10.0
    adapters: int = 4096
    adapter_bytes: int = 256 << 20
    adapter_seconds: float = 600.0
    work: int = 20_000_000  # examples x samples x steps of one task: a call that has begun cannot be ended
    connections: int = 768  # below the 1024 files that a process may usually have open
    client_connections: int = 256  # fewer than `requests`, so that no client takes them all
    backlog: float = 5.0  # seconds of work of one client that wait
    headers: int = 100

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise FewstepError(f"The limit {field.name} is {value}. It must be above 0.")

    def of_images(self) -> "Limits":
        """The same for images, of which each is many numbers."""
        least = {"points": 256, "queries": 256, "samples": 16, "work": 16_384}
        return dataclasses.replace(self, **{name: min(most, getattr(self, name)) for name, most in least.items()})


def bucket(size: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the sizes that holds so many; beyond them all, the next power of two."""
    at = bisect_left(sizes, size)
    return sizes[at] if at < len(sizes) else 1 << (size - 1).bit_length()
