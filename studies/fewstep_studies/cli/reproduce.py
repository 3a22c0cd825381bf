"""`fewstep reproduce`"""

import dataclasses
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import tyro

from fewstep import data
from fewstep._errors import FewstepError, unknown
from fewstep.cli import NO_HINT, print_json, print_table, say, seconds_of, show_grid, watch_data
from fewstep.experiments import flag
from fewstep_studies.reproduce import STUDIES, AnyStudy, Options, Watch, as_json, reproduce, tables_of

_PLACES = {
    "data_dir": "Folder to look for data in before anything is downloaded (default: the environment variable "
    "FEWSTEP_DATA).",
    "images": "Folder of the images, which cannot be downloaded freely.",
}


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run the grid behind a published table or figure, and show ours beside the paper's.

    Every study has options of its own, such as its size: fewstep reproduce NAME --help

    Examples of use:
      fewstep reproduce sinusoid --quick
      fewstep reproduce step-size --seeds 3 --json
      fewstep reproduce polynomial --resume
      fewstep reproduce omniglot --budget 30m --only mtnet-5way-1shot prototypes-1shot
      fewstep reproduce miniimagenet --images ~/miniimagenet
      fewstep reproduce layerwise --data-dir ~/data --only ism ws svm
      fewstep reproduce universality --target ridge mine.py:learner --bins 8
      fewstep reproduce curves --data-dir ~/data --only growth
    """

    name: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help=f"What to reproduce: {', '.join(STUDIES)}.")
    ]
    """What to reproduce."""
    out: Annotated[Path | None, NO_HINT] = None
    """Folder of the cells, the report and its figures (default: runs/reproduce-NAME)."""
    resume: bool = False
    """Continue a grid that was stopped; finished cells are not run again."""
    overwrite: bool = False
    """Replace the reproduction in that folder."""
    json: bool = False
    """Print the result as JSON on stdout."""

    study: ClassVar[AnyStudy | None] = None

    def __call__(self) -> int:
        if self.study is None or self.name != self.study.name:
            raise FewstepError(f"Write the name first: fewstep reproduce {self.name}, then its options.")
        study, options = self.study, self._options(self.study)
        self._find_data(study)
        out = self.out or Path("runs") / f"reproduce-{self.name}{'-quick' if options.quick else ''}"
        try:
            with show_grid(study.name, getattr(options, "budget", None)) as (cells, remark):
                result = reproduce(
                    study, out, options, Watch(cells, remark), resume=self.resume, overwrite=self.overwrite
                )
        except KeyboardInterrupt:  # outside of a training, which ends by itself and saves
            result = None
        if result is None:
            where = out / "report.html" if (out / "report.html").exists() else out
            say(f"Stopped; what is reached is safe in {where}. Continue with the same command and --resume.")
            return 130
        if self.json:
            print_json(as_json(result))
            return 0
        for table in tables_of(study, result):
            if table.brief:
                print_table(table.head, table.body)
        size = study.describe(options)
        size = size[:1].upper() + size[1:]
        say(f"{size}. See {result.report}; the numbers are in {out / 'result.json'}.")
        return 0

    def _options(self, study: AnyStudy) -> Options:
        """The study's options: its defaults, and those that were given."""
        values = {name: getattr(self, name) for name in _fields(study) if name not in study.places}
        given = {name: value for name, value in values.items() if value is not None and value is not False}
        given = {name: value for name, value in given.items() if value != ()}
        if "budget" in given:
            if "steps" in given:
                raise FewstepError("--budget and --steps are both given. Keep one.")
            given["budget"] = seconds_of(given["budget"])
        return dataclasses.replace(study.quick if given.get("quick") else study.full, **given)

    def _find_data(self, study: AnyStudy) -> None:
        watch_data(getattr(self, "data_dir", None))
        if images := getattr(self, "images", None):
            data.images_at(study.name, images)


def reproduce_command(words: Sequence[str]) -> type[Reproduce]:
    """The command for the words behind `fewstep reproduce`, with the options of the study that they name; those of
    others are refused."""
    name = next((word for word in words if word in STUDIES), None)
    if name is None:
        if words and not words[0].startswith("-"):
            raise unknown("reproduction", words[0], STUDIES)
        if words and words[0] not in ("-h", "--help"):
            raise FewstepError(f"Say what to reproduce, such as: fewstep reproduce {next(iter(STUDIES))} {words[0]}")
        return Reproduce
    others = {field for study in STUDIES.values() for field in _fields(study)} - {*_fields(STUDIES[name])}
    for word in words:
        field = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.startswith("--") and field in others:
            raise FewstepError(
                f"{flag(field)} does not apply to {name}. Leave it out; what applies is listed by: fewstep reproduce "
                f"{name} --help"
            )
    return _command_of(name)


def _fields(study: AnyStudy) -> dict[str, dataclasses.Field[Any] | None]:
    """The options of a study that users can set, and those that say where its data are."""
    own = {field.name: field for field in dataclasses.fields(study.full) if field.metadata}
    return {**own, **dict.fromkeys(study.places)}


@cache
def _command_of(name: str) -> type[Reproduce]:
    """The command with the options of one study, each with its default in its help."""
    study, fields = STUDIES[name], []
    kinds = get_type_hints(type(study.full))
    for field in (field for field in _fields(study).values() if field is not None):
        default, quick = getattr(study.full, field.name), getattr(study.quick, field.name)
        text = f"{field.metadata['help']}"
        if default not in (None, False, ()):
            look = "" if quick == default else f"; with --quick {_text(quick)}"
            text += f" (default: {_text(default)}{look})"
        kind = str | None if field.name == "budget" else kinds[field.name]
        empty = False if kind is bool else () if isinstance(default, tuple) else None
        fields.append((field.name, Annotated[kind if empty is not None else kind | None, _help(text)], empty))
    fields += [(place, Annotated[Path | None, _help(_PLACES[place])], None) for place in study.places]
    own = dataclasses.make_dataclass("Reproduce", fields, bases=(Reproduce,), frozen=True, namespace={"study": study})
    own.__doc__ = f"{study.texts.title}.\n\n{study.texts.protocol}"
    return own


def _help(text: str) -> Any:
    return tyro.conf.arg(help=text, help_behavior_hint="")


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
