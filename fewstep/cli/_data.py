"""`fewstep data`"""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.files import cache

_WHAT = "list: what there is; get: download and check; check: compare checksums; path: where is looked."


@dataclasses.dataclass(frozen=True)
class Data:
    """Sets of images: list them, get one from its home, check what is here, say where it is looked for.

    A set that you have already is used where it lies: name the folder above it with --data-dir or FEWSTEP_DATA.

    Examples of use:
      fewstep data list
      fewstep data get omniglot
      fewstep data check --data-dir ~/data
      fewstep data path
    """

    action: Annotated[
        tyro.conf.Positional[Literal["list", "get", "check", "path"]], tyro.conf.arg(metavar="ACTION", help=_WHAT)
    ]
    """What to do."""
    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]", help_behavior_hint="")] = None
    """A set, such as omniglot or cifar100 (default: all)."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look in before the cache (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        return {"list": self._list, "get": self._get, "check": self._check, "path": self._path}[self.action]()

    @property
    def _sources(self) -> list[Any]:
        return [data.source(self.name)] if self.name else list(data.SOURCES.values())

    def _list(self) -> int:
        rows = []
        for source in self._sources:
            place = data.find(source.name)
            size = sum(file.megabytes for file in source.files)
            rows.append({
                "name": source.name, "tasks": list(source.used_by), "what": source.what, "megabytes": size or None,
                "license": source.license, "here": None if place is None else str(place),
            })  # fmt: skip
        if self.json:
            _show.print_json({"sets": rows})
            return 0
        _show.print_table(
            ["set", "tasks", "what", "download", "license", "here"],
            [[row["name"], ", ".join(row["tasks"]), row["what"],
              f"{row['megabytes']} MB" if row["megabytes"] else "not free: bring your own", row["license"],
              row["here"] or "no"] for row in rows],
        )  # fmt: skip
        return 0

    def _get(self) -> int:
        if self.name is None:
            raise FewstepError("Say which set: fewstep data get omniglot, or fewstep data get cifar100.")
        files = [str(path) for path in data.get(self.name)]
        if self.json:
            _show.print_json({"files": files})
            return 0
        print("\n".join(files))
        _show.say("Whole: the checksums are those of its home.")
        return 0

    def _check(self) -> int:
        files = [(source.name, *file) for source in self._sources for file in _checked(source.name)]
        damaged = any(state.startswith("damaged") for _, _, state in files)
        if self.json:
            _show.print_json({"files": [{"set": a, "file": b, "state": c} for a, b, c in files]})
        else:
            _show.print_table(["set", "file", "state"], [list(row) for row in files])
        if damaged:
            print("fewstep: A file is damaged. Remove it, and get it again: fewstep data get NAME", file=sys.stderr)
        return 2 if damaged else 0

    def _path(self) -> int:
        folders = [str(folder) for folder in data.folders()]
        if self.json:
            _show.print_json({"folders": folders, "cache": str(cache())})
        else:
            print("\n".join(folders))
        return 0


def _checked(name: str) -> list[tuple[str, str]]:
    """What `check` reports; files in another form than that of the home are read instead, where they have a split."""
    place = data.find(name)
    if files := data.check(name):
        return files
    tasks = data.SOURCES[name].used_by[0]
    try:
        counts = [len(data.load(tasks, part, size=32).names) for part in ("train", "validation", "test")]
    except FewstepError as error:
        return [(str(place), f"damaged: {error}")]
    return [(str(place), f"can be read: {' + '.join(map(str, counts))} classes of {tasks}")]
