"""`fewstep play`"""

import dataclasses
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.cli._progress import show_progress
from fewstep.experiments import Experiment
from fewstep.models import pretrained
from fewstep.runs import Run, checkpoint_steps, create_run, open_run, train_run

METHODS = ("maml", "tnet", "mtnet")
STEPS, QUICK = 4000, 400
_CHARACTERS = "omniglot-mtnet-5way"
_MAX_RUNS = 8  # runs that are served: more cannot be distinguished in one plot, and each takes a while to load


@dataclasses.dataclass(frozen=True)
class Play:
    """Watch models adapt: train small ones if there are none yet, start the server, open the playground in a browser.

    Ctrl-C stops it; the same command again goes on with a training that was stopped.

    Examples of use:
      fewstep play
      fewstep play --port 8080 --no-browser
      fewstep play --runs runs/demo                    (with the runs of `make demo`)
      fewstep play --quick                             (train for seconds: the models are worse)
    """

    runs: Path = Path("runs/play")
    """Folder with the runs to play with. Where it has none, three are trained in it: maml, tnet and mtnet on sine
    waves."""
    port: int = 8000
    """Port of this machine to listen on; 0 for a free one."""
    browser: bool = True
    """Open the browser when the server is ready."""
    quick: bool = False
    """Train a tenth as long."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder of the images that test episodes are drawn from (default: the environment variable FEWSTEP_DATA; without
    images there, the 20 characters that come with fewstep)."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        if not 0 <= self.port < 65536:
            raise FewstepError(f"--port is {self.port}. Give a number from 0 to 65535.")
        if (self.runs / "config.json").is_file():
            raise FewstepError(f"{self.runs} is a run. Give the folder that it is in: --runs {self.runs.parent}")
        run_server = _server()
        if not self._train():
            _show.say("Stopped. Run the same command to go on.")
            return 130
        served = [run.path for run in _runs_in(self.runs) if checkpoint_steps(run.answering.checkpoints)]
        if len(served) > _MAX_RUNS:
            served = sorted(served, key=lambda path: path.stat().st_mtime)[-_MAX_RUNS:]
            _show.say(f"{self.runs} holds more than {_MAX_RUNS} runs; the newest {_MAX_RUNS} are loaded.")
        code = run_server([*served, *(name for name in pretrained() if name == _CHARACTERS)], self)
        _show.say("Stopped.")
        return code

    def _train(self) -> bool:
        """Trains the default models as far as they are not; leaves a folder of other runs alone. False if stopped."""
        runs = {run.path.name: run.experiment for run in _runs_in(self.runs)}
        if not all(name in METHODS and run == _default(name, run.steps) for name, run in runs.items()):
            return True
        for method in METHODS:
            before = runs[method].steps if method in runs else 0
            run = create_run(self.runs / method, _default(method, max(before, QUICK if self.quick else STEPS)))
            with show_progress(f"{method:5} on sinusoid") as progress:
                if train_run(run, progress).interrupted:
                    return False
        return True


def _default(method: str, steps: int) -> Experiment:
    """How a model of the playground is trained: with a few inner steps, so that it bears many more."""
    return Experiment(method, "sinusoid", steps=steps, inner_steps=3, inner_lr=0.01)


def _runs_in(folder: Path) -> list[Run]:
    runs = []
    for path in sorted(folder.glob("*/config.json")):
        try:
            runs.append(open_run(path.parent))
        except FewstepError as error:
            _show.say(f"Passed over: {error}")
    return runs


def _server() -> Callable[[Sequence[Path | str], Play], int]:
    """The function that serves; its packages are imported before anything is trained, in case one is missing."""
    from fewstep.serve import Limits, Log, Service, serve

    class Words(Log):
        """Writes for a person instead of a machine."""

        url, opens = "", False

        def event(self, event: str, **fields: Any) -> None:
            """Something that happened to the service."""
            if event == "listening":
                self.url = fields["url"]
                _show.say(f"Loading {', '.join(fields['models'])} ...")
            elif event == "ready":
                _show.say(f"The playground is at {self.url}  (Ctrl-C stops it)")
                if self.opens:
                    threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()
            elif event in ("error", "failed"):
                super().event(event, **fields)

    def run(runs: Sequence[Path | str], play: Play) -> int:
        log = Words("problems")
        log.opens = play.browser
        limits = Limits(seconds=60.0)  # the first request of its sort may wait for a compiler
        service = Service(runs, limits, max_batch=1, watch=play.runs, log=log)
        return serve(service, host="127.0.0.1", port=play.port)

    return run
