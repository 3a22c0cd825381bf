"""An experiment: everything that decides what a training does. Command lines and runs are made of it."""

import dataclasses
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from fewstep import rules
from fewstep._errors import FewstepError
from fewstep.encoders import ENCODERS
from fewstep.experiments._groups import Machine, OuterStep, Training
from fewstep.experiments._heads import LEARNER_METHODS
from fewstep.experiments._methods import AROUND, Method, locate, method_of
from fewstep.files import file_of
from fewstep.outers import OUTERS
from fewstep.problems import (
    HIDDEN,
    KINDS,
    Kind,
    Options,
    OwnNetwork,
    Value,
    Values,
    fill,
    from_signature,
    is_own,
    kind_of,
    without,
)

VERSION = 2  # of the configuration


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Experiment:
    """What to train, on what, and how: `Experiment("mtnet", "sinusoid", steps=2000, shots=5)`.

    It reads flat, as `experiment.steps`. Inside, its options lie in groups, of which only those are there that apply to
    the method and the tasks; each has a value. `fewstep train METHOD TASKS --help` lists them, and so does `groups`.
    Raises `FewstepError` for an option that does not apply.
    """

    method: str
    tasks: str
    groups: tuple[Options, ...]
    folder: Path | None = dataclasses.field(repr=False)

    def __init__(self, method: str, tasks: str, *, folder: Path | None = None, **options: Value) -> None:
        plan = plan_of(method, tasks, options, folder)
        plan.refuse_others(method, tasks, options)
        values = {**plan.defaults, **options}
        groups = tuple(fill(group, values) for group in plan.groups.values())
        for name, value in {"method": method, "tasks": tasks, "groups": groups, "folder": folder}.items():
            object.__setattr__(self, name, value)
        _check_clips(options)

    def __getattr__(self, name: str) -> Value:
        if not name.startswith("_"):
            for group in self.groups:
                if name in group.__dataclass_fields__:
                    return getattr(group, name)
        raise AttributeError(f"{name!r} is not an option of {self.method} on {self.tasks}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(self.to_json())

    @property
    def kind(self) -> Kind:
        """The kind of its tasks."""
        return kind_of(self.located(self.tasks), {"encoder": self.located(self.encoder)} if self.has("encoder") else {})

    @property
    def kind_options(self) -> Options:
        """The options of its kind, with the paths of the user's own files."""
        options = self.groups[0]
        values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        texts = {name: value for name, value in values.items() if isinstance(value, str) and is_own(value)}
        return dataclasses.replace(options, **{name: self.located(text) for name, text in texts.items()})

    def has(self, name: str) -> bool:
        """Whether an option applies."""
        return any(name in group.__dataclass_fields__ for group in self.groups)

    def value(self, name: str) -> Value:
        """An option by its name."""
        return getattr(self, name)

    def replace(self, **changes: Value) -> "Experiment":
        """The experiment with some options changed; of another method or other tasks, with their own defaults."""
        names = self.differing() if {"method", "tasks"} & changes.keys() else self.settings()
        kept = {name: value for name, value in self.settings().items() if name in ("method", "tasks", *names)}
        settings = {**kept, **changes}
        return Experiment(settings.pop("method"), settings.pop("tasks"), folder=self.folder, **settings)

    def at(self, folder: Path) -> "Experiment":
        """The experiment with the user's own files in a folder."""
        settings = self.settings()
        return Experiment(settings.pop("method"), settings.pop("tasks"), folder=folder, **settings)

    def settings(self) -> dict[str, Value]:
        """All options by name, with the method and the tasks."""
        values = {"method": self.method, "tasks": self.tasks}
        for group in self.groups:
            values |= {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
        return values

    def differing(self) -> dict[str, Value]:
        """The options other than their defaults; nothing of where data are."""
        first = Experiment(self.method, self.tasks, folder=self.folder)
        encoder = {"encoder": self.encoder} if self.has("encoder") else {}  # which decides what other options there are
        plain = Experiment(self.method, self.tasks, folder=self.folder, **encoder)
        hidden = {field.name for group in self.groups for field in dataclasses.fields(group) if field.metadata[HIDDEN]}
        names = self.settings().keys() - hidden - {"method", "tasks"}
        return {
            name: _file_name(value)
            for name, value in self.settings().items()
            if name in names and not _is(first if name in encoder else plain, name, value)
        }

    @property
    def seed_list(self) -> list[int]:
        """The seeds that are trained together."""
        return list(range(self.seed, self.seed + (self.seeds if self.has("seeds") else 1)))

    @property
    def parts(self) -> dict[str, "Experiment"]:
        """The experiments that it is made of, by name, if it is made of several."""
        settings = method_of(self.method, self.folder).parts(self)
        return {name: _member(self, name, options) for name, options in settings.items()}

    @property
    def public_method(self) -> str:
        """The method without the paths of a user's own files."""
        return "+".join(_file_name(part) for part in self.method.split("+"))

    @property
    def public_tasks(self) -> str:
        """The tasks without the path of a folder, table or file, which is nobody's business."""
        kind, colon, path = self.tasks.partition(":")
        return _file_name(self.tasks) if is_own(self.tasks) else f"{kind}:{Path(path).name}" if colon else kind

    def located(self, text: str) -> str:
        """A name, with the path of its file if it is a user's own: with a run, its files lie in the run's folder."""
        return locate(text, self.folder)

    @property
    def own_files(self) -> list[Path]:
        """The user's own Python files that it names."""
        options = {name: value for name, value in self.settings().items() if name != "method"}
        texts = [*self.method.split("+"), *(value for value in options.values() if isinstance(value, str))]
        paths = [file_of(self.located(text)) for text in texts if is_own(text)]
        return list(dict.fromkeys(path for path in paths if path is not None))

    def to_json(self) -> str:
        """The experiment as indented JSON."""
        return json.dumps(self.settings(), indent=2) + "\n"

    @staticmethod
    def from_json(text: str, folder: Path | None = None) -> "Experiment":
        """The experiment that `to_json` wrote."""
        return Experiment(**json.loads(text), folder=folder)


@dataclasses.dataclass(frozen=True)
class OptionPlan:
    """The groups of options that apply to a method on some tasks, by title, and defaults other than theirs."""

    kind: Kind
    method: Method
    groups: dict[str, type]
    defaults: dict[str, Value]

    def fields(self) -> Iterator[tuple[str, "dataclasses.Field[Value]"]]:
        """Every option with the title of its group."""
        for title, group in self.groups.items():
            for field in dataclasses.fields(group):
                yield title, field

    def refuse_others(self, method: str, tasks: str, options: Values) -> None:
        """Raises for an option that does not apply."""
        names = {field.name for _, field in self.fields()}
        for name in options.keys() - names:
            raise FewstepError(f"`{name}` does not apply{_reason(self, name, method, tasks, options)}. Leave it out.")


def plan_of(method: str, tasks: str, options: Values, folder: Path | None = None) -> OptionPlan:
    """What applies to a method on some tasks, given some of the options; a user's own files may be in a folder."""
    tasks = locate(tasks, folder)
    encoder = locate(str(options.get("encoder", "")), folder)
    kind, way = kind_of(tasks, {"encoder": encoder}), method_of(method, folder)
    usual = str(kind.network(tasks)().network)
    outer = way.outer or options.get("outer", "unrolled")
    return _plan(kind, way, tasks, options.get("network", usual) != usual, outer, options)


def _plan(kind: Kind, way: Method, tasks: str, own: bool, outer: str, given: Values) -> OptionPlan:
    groups: dict[str, type] = {kind.name: kind.options(tasks)}
    if way.network or kind.features:
        network = OwnNetwork if own else kind.network(tasks)
        groups["network"] = network if way.loss else without(network, "loss")
    for group in way.groups:
        title = {"InnerSteps": "inner_steps", "FewSteps": "inner_steps"}.get(group.__name__, group.__name__.lower())
        groups[title] = group
    if way.fit is None:
        groups["outer_step"] = OuterStep
    if way.steps and (more := _outer_options(outer)) is not None:
        groups[outer] = more
    groups |= {"machine": Machine} if way.fit is not None else {"training": Training, "machine": Machine}
    groups = _distinct(groups)
    defaults = {**way.weak_defaults(given), **kind.defaults(tasks, way.name, given), **way.defaults(given)}
    if "clip_value" in given:
        defaults.pop("clip_norm", None)
    if way.fit is not None:
        defaults.pop("steps", None)  # a fit is one step
    if way.outer:
        defaults["outer"] = way.outer
    names = {field.name for group in groups.values() for field in dataclasses.fields(group)}
    defaults = {name: value for name, value in defaults.items() if name in names}
    return OptionPlan(kind, way, groups, defaults)


def _distinct(groups: dict[str, type]) -> dict[str, type]:
    """The groups without those that are empty, and without an option that one before them has already."""
    taken: set[str] = set()
    distinct: dict[str, type] = {}
    for title, group in groups.items():
        for name in [field.name for field in dataclasses.fields(group) if field.name in taken]:
            group = without(group, name)
        if names := {field.name for field in dataclasses.fields(group)}:
            distinct[title], taken = group, taken | names
    return distinct


def option_names() -> set[str]:
    """The names of all options that some experiment of ours has."""
    return {field.name for field in dataclasses.fields(every_option())}


@lru_cache
def every_option() -> type:
    """One group of all options that some experiment of ours has."""
    methods = (*rules.RULES, *(f"maml+{link}" for link in (*rules.LINKS, *AROUND)))
    plans = [plan_of(method, tasks, {}) for kind in KINDS for tasks in kind.tasks if not tasks.endswith(":")
             for method in methods]  # fmt: skip
    kinds = [each for kind in KINDS for each in (kind, *map(kind.behind, ENCODERS))]
    others = [group for kind in kinds for tasks in kind.tasks for group in (kind.options(tasks), kind.network(tasks))]
    own = [group for method in LEARNER_METHODS.values() for group in method["groups"]]
    ways = [group for outer in OUTERS if (group := _outer_options(outer)) is not None]
    groups = [*(group for plan in plans for group in plan.groups.values()), *others, *own, *ways]
    fields = {field.name: field for group in groups for field in dataclasses.fields(group)}
    return dataclasses.make_dataclass("Options", [(name, field.type, field) for name, field in fields.items()])


def _outer_options(outer: str) -> type | None:
    if outer not in OUTERS:
        return None
    group = from_signature("Outer", OUTERS[outer], skip=("steps",))  # as many as the inner steps
    return group if dataclasses.fields(group) else None


def _reason(plan: OptionPlan, name: str, method: str, tasks: str, options: Values) -> str:
    """Why an option does not apply, in words."""
    if is_own(str(options.get("network", ""))) and name in {
        field.name for field in dataclasses.fields(plan.kind.network(tasks))
    }:
        return ": `network` brings its own network"
    return f" to {method} on {tasks.partition(':')[0]}"


def _member(whole: Experiment, method: str, options: Values) -> Experiment:
    """A member of an experiment, with those of the options that apply to it."""
    names = {field.name for _, field in plan_of(method, whole.tasks, options, whole.folder).fields()}
    member = Experiment(method, whole.tasks, folder=whole.folder, **{k: v for k, v in options.items() if k in names})
    if not member.has("outer_lr") or whole.effort == 1:
        return member
    return member.replace(steps=max(1, round(whole.effort * member.steps)))


def _is(experiment: Experiment, name: str, value: Value) -> bool:
    """Whether an experiment has an option, with this value."""
    return experiment.has(name) and bool(experiment.value(name) == value)


def _file_name(value: Value) -> Value:
    """A FILE.py:NAME without its folder; anything else as it is."""
    return Path(value).name if isinstance(value, str) and is_own(value) else value


def _check_clips(options: Values) -> None:
    if options.get("clip_value") and options.get("clip_norm"):
        raise FewstepError("`clip_value` and `clip_norm` are both given. Keep one.")


def flag(name: str) -> str:
    """An option's name as the command line spells it."""
    return "--" + name.replace("_", "-")
