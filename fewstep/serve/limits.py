"""How much one request, and all of them together, may ask for."""

import dataclasses

from fewstep._errors import FewstepError


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of the service."""

    points: int = 256
    """Examples per task."""
    queries: int = 1024
    """Rows to predict per request."""
    steps: int = 100
    """Gradient steps per task."""
    samples: int = 64
    """Mask samples per task."""
    ways: int = 20
    """Classes per task of images or texts."""
    characters: int = 1000
    """Characters per text, which an encoder reads at a few microseconds each."""
    body: int = 4 << 20
    """Bytes per request."""
    requests: int = 512
    """Requests at a time."""
    seconds: float = 10.0
    """Seconds per request."""
    adapters: int = 4096
    """Adapters in memory."""
    adapter_bytes: int = 256 << 20
    """Bytes of all adapters."""
    adapter_seconds: float = 600.0
    """Seconds after which an unused adapter is dropped."""
    work: int = 20_000_000
    """Examples x samples x steps per task: a call that has begun cannot be interrupted."""
    connections: int = 768
    """Open connections; fewer than the 1024 files that a process may usually have open."""
    client_connections: int = 256
    """Open connections per client; fewer than `requests`, so that no client takes them all."""
    backlog: float = 5.0
    """Seconds of work per client that may wait."""
    headers: int = 100
    """Headers per request."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise FewstepError(f"The limit {field.name} is {value}. It must be above 0.")

    def cap(self, **bounds: int) -> "Limits":
        """The same limits, none above its bound."""
        return dataclasses.replace(self, **{name: min(bound, getattr(self, name)) for name, bound in bounds.items()})
