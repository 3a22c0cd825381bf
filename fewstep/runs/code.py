"""A user's own code, kept with the run: copies of the files that its experiment names, and a digest of each."""

import hashlib
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment
from fewstep.files import write_text

CODE = "code"


def digests(experiment: Experiment) -> dict[str, str]:
    """The digest of each of the user's own files, by name. Raises `FewstepError` for two files of one name."""
    files: dict[str, tuple[Path, str]] = {}
    for path in experiment.own_files:
        if not path.is_file():
            raise FewstepError(f"There is no file {path}. Give the path of a Python file, a colon and a name in it.")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        other, first = files.setdefault(path.name, (path, digest))
        if first != digest:
            raise FewstepError(f"{other} and {path} have one name, and a run keeps its files by name. Rename one.")
    return {name: digest for name, (_, digest) in files.items()}


def copy_code(experiment: Experiment, folder: Path) -> Experiment:
    """Copies the user's own files into a run's folder; the experiment that uses these copies."""
    if not experiment.own_files:
        return experiment
    for path in experiment.own_files:
        write_text(folder / CODE / path.name, path.read_text(encoding="utf-8"))
    return experiment.at(folder / CODE)


def check_code(begun: Experiment, wanted: Experiment, path: Path) -> None:
    """Raises if a user's own file is another than when the run was begun."""
    there, here = digests(begun), digests(wanted)
    for name in there:
        if here.get(name) != there[name]:
            raise FewstepError(
                f"{name} has changed since {path} was begun with it; a copy of it as it was is in {path / CODE}. "
                "Bring it back, choose another folder, or replace the old run with `overwrite=True`."
            )
