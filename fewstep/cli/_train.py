"""`fewstep train`"""

import dataclasses
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from fewstep import rules
from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import EVERY, NO_HINT, arguments, given_in
from fewstep.cli._budget import seconds_of
from fewstep.cli._progress import show_progress
from fewstep.cli._together import together
from fewstep.experiments import (
    ALIASES,
    AROUND,
    LEARNER_METHODS,
    Experiment,
    OptionPlan,
    every_option,
    flag,
    make_problem,
    plan_of,
)
from fewstep.files import JSON
from fewstep.inspection import layer_lines
from fewstep.machine import distributed
from fewstep.machine.cluster import find_place
from fewstep.problems import KINDS, Value, is_own, kind_of
from fewstep.reports import gather, scores, usual_steps, write_report
from fewstep.runs import Outcome, Run, calibrate_run, create_run, load, planned, train_run

_METHODS = (
    f"A rule ({', '.join(rules.RULES)}), a chain of links ({', '.join((*rules.LINKS, *AROUND))}) such as mtnet+rates, "
    f"an alias ({', '.join(ALIASES)}), a learner without inner gradient ({', '.join(LEARNER_METHODS)}), or your own: "
    "FILE.py:NAME."
)
_NAMES = [f"{name}PATH" if name.endswith(":") else name for kind in KINDS for name in kind.tasks if name != "table"]
_TASKS = f"{', '.join(_NAMES)}, or your own: FILE.py:NAME."
_NAMED = ("--network", "--loss", "--outer", "--run", "--encoder")  # options whose values look like a METHOD or TASKS
# Options that other options, or their defaults, depend on.
_DECIDING = (
    "network", "outer", "inner_optimizer", "inner_steps", "steps", "shots", "ways", "clip_value", "support", "encoder",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where the run is, and what happens before and after the training."""

    run: Annotated[Path | None, NO_HINT] = None
    """Folder of the run (default: runs/METHOD-TASKS-SEED)."""
    budget: Annotated[str | None, NO_HINT] = None
    """Train for about so long, such as 10m or 2h: how many steps fit is measured before training starts (default: as
    many as --steps)."""
    overwrite: bool = False
    """Replace a run of another experiment in that folder."""
    save_every: float = 15.0
    """Seconds between checkpoints."""
    report: bool = True
    """Evaluate the run on unseen tasks at the end, and write report.html."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    tune: bool = True
    """Before a long training of heavy tasks, try which --devices and --chunk are fastest here, once for a network."""
    json: bool = False
    """Print the result as JSON on stdout."""
    coordinator: Annotated[str | None, NO_HINT] = None
    """Train as one of several processes, which meet at this HOST:PORT of process 0 (default: the environment variable
    FEWSTEP_COORDINATOR, or as SLURM, Open MPI or Kubernetes say; none: alone)."""
    processes: Annotated[int | None, NO_HINT] = None
    """How many processes there are (default: the environment variable FEWSTEP_PROCESSES)."""
    process: Annotated[int | None, NO_HINT] = None
    """Which of them this is, counted from 0 (default: the environment variable FEWSTEP_PROCESS)."""
    wait_seconds: float = 300.0
    """How long to wait for the other processes at the start."""


class Train:
    """Meta-train a method on tasks; the same command again resumes where it stopped.
    `fewstep train METHOD TASKS --help` lists the options that apply to METHOD and TASKS.

    Examples of use:
      fewstep train mtnet sinusoid --steps 2000 --run runs/x
      fewstep train mtnet+rates sinusoid --seeds 5
      fewstep train mtnet omniglot --budget 30m
      fewstep train maml polynomial --order 3 --inner-steps 5 --outer first_order
      fewstep train mtnet omniglot --ways 5 --shots 1 --steps 15000
      fewstep train prototypes folder:photos.zip --ways 5 --shots 5 --image-size 32
      fewstep train mtnet table:growth.csv --task child --x age sex --y height_cm --shots 5
      fewstep train anil table:growth.csv --task child --x age --y height_cm --network mine.py:make
      fewstep train meta_sgd sinusoid --outer evolution --of rates --ema 0.999
      fewstep train mine.py:rule sinusoid
    """


def train_command(words: Sequence[str]) -> type:
    """The command for the words behind `fewstep train`, with the options that apply to its METHOD and TASKS."""
    method, tasks = _positionals(words)
    plan = None if method is None or tasks is None else plan_of(method, tasks, _deciding(words))
    _show.NAMES.update(field.name for _, field in (plan.fields() if plan is not None else ()))
    fields: list[Any] = [
        ("method", Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD", help=_METHODS)]),
        ("tasks", Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASKS", help=_TASKS)]),
    ]
    for title, group in plan.groups.items() if plan is not None else ():
        own = arguments(group, plan.defaults if plan is not None else {})
        fields.append((title, own, dataclasses.field(default_factory=own)))
    if EVERY in words:
        every = arguments(every_option(), {})
        fields.append(("options", every, dataclasses.field(default_factory=every)))
    fields.append(("run_settings", Settings, dataclasses.field(default_factory=Settings)))

    def call(self: Any) -> int:
        has_steps = bool(given_in(words, ("steps",)))
        return _Training(self.experiment, self.run_settings, has_steps=has_steps).run()

    parts = {"__call__": call, "experiment": property(lambda self: _experiment(self, plan, words))}
    command = dataclasses.make_dataclass("Train", fields, frozen=True, namespace=parts)
    command.__doc__ = Train.__doc__
    return command


def _experiment(command: Any, plan: OptionPlan | None, words: Sequence[str]) -> Experiment:
    """The experiment that the words of a command describe: what they do not give has its default."""
    assert plan is not None
    values = {
        field.name: getattr(getattr(command, title), field.name)
        for title, field in plan.fields() if hasattr(getattr(command, title), field.name)
    }  # fmt: skip
    given = given_in(words, tuple(values))
    return Experiment(command.method, command.tasks, **{name: values[name] for name in values if name in given})


def _positionals(words: Sequence[str]) -> tuple[str | None, str | None]:
    """METHOD and TASKS among the words: first of all, or those that can be nothing else, with options between them."""
    plain = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    if len(plain) >= 2:
        return plain[0], plain[1]
    pairs = itertools.pairwise(("", *words))
    free = [word for before, word in pairs if not word.startswith("-") and before.replace("_", "-") not in _NAMED]
    method = plain[0] if plain else next(filter(_is_method, free), None)
    tasks = next((word for word in free if word != method and _is_tasks(word)), None)
    if method is not None and tasks is not None:
        return method, tasks
    if not {"-h", "--help"} & set(words):
        if method is not None:
            raise FewstepError(f"fewstep train {method} needs TASKS behind METHOD: {_TASKS}")
        raise FewstepError("fewstep train needs METHOD and TASKS, such as: fewstep train mtnet sinusoid --steps 2000")
    return None, None


def _is_method(word: str) -> bool:
    names = {*rules.RULES, *rules.LINKS, *AROUND, *ALIASES, *LEARNER_METHODS}
    return all(part.replace("-", "_") in names or is_own(part) for part in word.split("+"))


def _is_tasks(word: str) -> bool:
    try:
        return kind_of(word) is not None
    except FewstepError:
        return False


def _deciding(words: Sequence[str]) -> dict[str, Value]:
    """The options that other options, or their defaults, depend on."""
    given: dict[str, Value] = {}
    for name in _DECIDING:
        for number, word in enumerate(words):
            option, _, value = word.partition("=")
            if option.replace("_", "-") == flag(name):
                text = value or (words[number + 1] if number + 1 < len(words) else "")
                given[name] = _value(text)
    return given


def _value(text: str) -> Value:
    try:
        return json.loads(text)
    except ValueError:
        return text


class _Training:
    """A training from the command line."""

    def __init__(self, experiment: Experiment, settings: Settings, *, has_steps: bool):
        self.experiment, self.settings, self.has_steps = experiment, settings, has_steps

    def run(self) -> int:
        """Trains and reports; the exit code."""
        _show.watch_data(self.settings.data_dir)
        settings = self.settings
        place = find_place(settings.coordinator, settings.processes, settings.process, os.environ)
        if place is None:
            return self._report(*self._train())
        run, outcome = together(place, settings.wait_seconds, self._train)
        return self._report(run, outcome) if jax.process_index() == 0 else 130 * outcome.interrupted

    def _train(self) -> tuple[Run, Outcome]:
        settings, path = self.settings, self.settings.run or self._usual_path()
        experiment = self.experiment if settings.budget is None else self._plan(path, seconds_of(settings.budget))
        run = create_run(path, experiment, overwrite=settings.overwrite, tune=settings.tune, say=_show.say)
        if not distributed.first():
            return run, train_run(run, save_seconds=settings.save_every)
        _announce(run)
        with show_progress(f"{self.experiment.method} on {self.experiment.tasks}") as progress:
            return run, train_run(run, progress, save_seconds=settings.save_every)

    def _usual_path(self) -> Path:
        experiment = self.experiment
        name = experiment.public_tasks if is_own(experiment.tasks) else experiment.public_tasks.rpartition(":")[2]
        return Path("runs") / f"{experiment.public_method}-{name}-{experiment.seed}".replace(":", "-")

    def _plan(self, path: Path, seconds: float) -> Experiment:
        """The experiment with as many steps as fit into the time on this machine."""
        if self.has_steps:
            raise FewstepError("--budget and --steps are both given. Keep one.")
        if distributed.several():
            raise FewstepError("--budget does not apply to several processes. Give --steps instead.")
        if self.experiment.has("seconds"):
            _show.say(f"Planning each member for its part of {self.settings.budget}.")
            return planned(self.experiment, path, seconds, overwrite=self.settings.overwrite)
        _show.say(f"Measuring how many steps fit into {self.settings.budget}.")
        experiment = planned(self.experiment, path, seconds, overwrite=self.settings.overwrite)
        _show.say(f"Training {experiment.steps} steps.")
        return experiment

    def _report(self, run: Run, outcome: Outcome) -> int:
        method, tasks = self.experiment.method, self.experiment.tasks
        if outcome.interrupted:
            _show.say(f"Stopped at step {outcome.step}, saved in {run.path}. Run the same command to resume.")
            return 130
        calibrate_run(run, _show.say)
        result: dict[str, JSON] = {"run": str(run.path), "rule": method, "tasks": tasks, "step": outcome.step}
        if self.settings.report:
            name = self.experiment.public_method
            models = {name: load(run.path)}
            evidence = gather(models[name], usual_steps(models[name]), name=name, say=_show.say)
            rows = scores(models, say=_show.say) if evidence is None else {name: evidence.rows}
            _show.say("Drawing the report.")
            path = write_report(run.path / "report.html", models, rows, evidence)
            result |= {"rows": [row.to_json() for row in rows[name]], "report": str(path)}
            verdict = None if evidence is None else evidence.verdict
            result |= {} if verdict is None else {"verdict": verdict.to_json()}
        if self.settings.json:
            _show.print_json(result)
            return 0
        if self.settings.report:
            _show.scores_table(rows)
            if verdict is not None:
                _show.print_line(verdict.sentence)
        more = ", see report.html." if self.settings.report else "."
        done = f"Trained {outcome.step} steps" if self.experiment.has("outer_lr") else f"{method} is trained"
        _show.say(f"{done}; the run is in {run.path}{more}")
        return 0


def _announce(run: Run) -> None:
    """What a user should know before a long training: rows left out, and what a rule finds in their network."""
    problem = make_problem(run.experiment)
    if note := run.experiment.kind.note(problem):
        _show.say(note)
    if run.experiment.has("inner_optimizer") and is_own(run.experiment.network):
        for line in layer_lines(problem.network(problem.ways)):
            _show.say(line)
