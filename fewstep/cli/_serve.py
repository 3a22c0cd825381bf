"""`fewstep serve`"""

import dataclasses
import os
import re
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT

_TOKEN = "FEWSTEP_TOKEN"


@dataclasses.dataclass(frozen=True)
class Serve:
    """Serve trained runs over HTTP: adapt and predict by JSON, with a playground as the front page.

    Examples of use:
      fewstep serve runs/sine
      fewstep serve runs/maml runs/mtnet omniglot-mtnet-5way --port 8080
      fewstep serve minilm-l6                      (an encoder: texts, or photographs, without any training)
      fewstep serve runs/sine --host 0.0.0.0 --token SECRET     (others can reach it, with the token)
      fewstep serve --runs runs                                 (only watch trainings)
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN")] = ()
    """Run folders, or names of pretrained models or encoders."""
    runs: Annotated[Path | None, NO_HINT] = None
    """Folder of runs whose training curves to show (default: none)."""
    host: str = "127.0.0.1"
    """Address to listen on; 127.0.0.1 can be reached only from this machine."""
    port: int = 8000
    """Port to listen on; 0 for a free one."""
    token: Annotated[str | None, NO_HINT] = None
    """Token that clients must send (default: the environment variable FEWSTEP_TOKEN, else none)."""
    public: tuple[Literal["metrics", "docs"], ...] = ()
    """What to serve without the token: metrics (/metrics), docs (/docs and /openapi.json)."""
    cors: tuple[str, ...] = ()
    """Origins of other web pages that may use the service, such as https://example.org."""
    allow_host: tuple[str, ...] = ()
    """Host names that clients may use besides localhost, such as example.org (default: none if only this machine can
    reach the address, else any)."""
    gather_ms: float = 2.0
    """Longest time in milliseconds that a request waits for others to share its batch; 0 turns batching off."""
    gather_max: int = 64
    """Maximum number of requests per batch, up to 64."""
    points: int = 256
    """Maximum number of examples per task."""
    queries: int = 1024
    """Maximum number of rows to predict per request."""
    max_steps: int = 100
    """Maximum number of gradient steps per task."""
    samples: int = 64
    """Maximum number of mask samples per task."""
    ways: int = 20
    """Maximum number of classes per task of images or texts."""
    characters: int = 1000
    """Maximum number of characters per text."""
    body_mb: float = 4.0
    """Maximum size of a request in megabytes."""
    requests: int = 512
    """Maximum number of requests at a time; more get 429."""
    connections: int = 768
    """Maximum number of open connections; more get 503."""
    connections_per_client: int = 256
    """Maximum number of open connections per address. Behind a proxy all clients share one address: set it to
    the value of --connections."""
    backlog_seconds: float = 5.0
    """Maximum work per address that may wait, in estimated seconds; more gets 429. Requests that take a few
    milliseconds do not count."""
    seconds: float = 10.0
    """Maximum time for a request in seconds; after that it gets 503."""
    adapters: int = 4096
    """Maximum number of adapters in memory; the least recently used are dropped."""
    adapters_mb: float = 256.0
    """Maximum memory for adapters in megabytes."""
    adapter_seconds: float = 600.0
    """Seconds after which an unused adapter is dropped."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder of the images for random tasks (default: FEWSTEP_DATA, then the cache)."""
    log: Literal["all", "problems"] = "all"
    """Which requests to log, as JSON on stderr."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        from fewstep.serve import Limits, Log, Service, serve

        self._check()
        limits = Limits(
            points=self.points, queries=self.queries, steps=self.max_steps, samples=self.samples, ways=self.ways,
            characters=self.characters, body=int(self.body_mb * 2**20), requests=self.requests, seconds=self.seconds,
            adapters=self.adapters, adapter_bytes=int(self.adapters_mb * 2**20), adapter_seconds=self.adapter_seconds,
            connections=self.connections, client_connections=self.connections_per_client, backlog=self.backlog_seconds,
        )  # fmt: skip
        service = Service(
            self.models, limits, batch_seconds=self.gather_ms / 1000, max_batch=self.gather_max, token=self._secret(),
            cors=self.cors, hosts=self.allow_host, public=self.public, watch=self.runs, log=Log(self.log),
        )  # fmt: skip
        return serve(service, host=self.host, port=self.port)

    def _check(self) -> None:
        if not self.models and self.runs is None:
            raise FewstepError("There is nothing to serve. Name a run: fewstep serve runs/x, or omniglot-mtnet-5way.")
        if self.runs is not None and not self.runs.is_dir():
            raise FewstepError(f"There is no folder {self.runs}. Give the folder that holds runs with --runs.")
        if not 0 <= self.port < 65536:
            raise FewstepError(f"--port is {self.port}. Give a number from 0 to 65535.")
        for option, size in (("--body-mb", self.body_mb), ("--adapters-mb", self.adapters_mb)):
            if not 0 < size < 2**20:
                raise FewstepError(f"{option} is {size:g}. Give megabytes above 0, such as 4.")
        for origin in self.cors:
            if not re.fullmatch(r"\*|https?://[\w.-]+(:\d+)?|https?://\[[0-9A-Fa-f:.]+\](:\d+)?", origin):
                raise FewstepError(f"--cors is {origin!r}. Give origins of pages, such as https://example.org.")
        for name in self.allow_host:
            if not re.fullmatch(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", name):
                raise FewstepError(f"--allow-host is {name!r}. Give a name without a port, such as example.org.")
        self._secret()
        if not 0 <= self.gather_ms <= 1000:
            raise FewstepError(f"--gather-ms is {self.gather_ms}. Give milliseconds from 0 to 1000, such as 2.")
        if not 1 <= self.gather_max <= 64:
            raise FewstepError(f"--gather-max is {self.gather_max}. Give a number from 1 to 64.")

    def _secret(self) -> str | None:
        """The token. An empty one is most likely a variable that is not set."""
        where, token = ("--token", self.token) if self.token is not None else (_TOKEN, os.environ.get(_TOKEN))
        if token is not None and not token.strip():
            raise FewstepError(f"{where} is empty, which would let everybody in. Give a token, or leave it out.")
        return token
