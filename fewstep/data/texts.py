"""Texts by class: a CSV with columns of texts and labels, or a folder with one folder of .txt files per class."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._set import SPLITS, Classes, split_classes

_MAX_CHARACTERS = 100_000  # of one text: an encoder reads the first few hundred words
_SHARES = (0.64, 0.16)
_TEXT_COLUMNS, _LABEL_COLUMNS = ("text", "sentence"), ("label", "class", "intent")


class Texts(NamedTuple):
    """Texts, and the label of each, if they have one."""

    texts: list[str]
    labels: list[str]

    def by_class(self) -> dict[str, list[str]]:
        """The texts of each class, as often as they are there."""
        classes: dict[str, list[str]] = {}
        for text, label in zip(self.texts, self.labels, strict=True):
            classes.setdefault(label, []).append(text)
        return classes


def read_texts(path: Path, text: str = "", label: str = "", *, labeled: bool = True) -> Texts:
    """The texts of a CSV, a folder, or a .txt with one on each line (without labels).

    **Arguments:** the columns of `text` and `label`, where they have other names than text, and label, class or intent;
    `labeled=False` where no label is needed.
    """
    if path.is_dir():
        return _read_folder(path, labeled=labeled)
    if not path.exists():
        raise FewstepError(f"There is no {path}. Give a CSV with a column of texts, or a folder of .txt files.")
    if path.suffix.lower() == ".txt":
        if labeled:
            raise FewstepError(f"{path} has texts without labels. Give a CSV with both, or a folder for each class.")
        lines = [line for line in _content(path).split("\n") if line.strip()]
        return Texts([_checked(line, f"Line {n + 1} of {path}") for n, line in enumerate(lines)], [])
    return _read_csv(path, text, label, labeled=labeled)


def _read_csv(path: Path, text: str, label: str, *, labeled: bool) -> Texts:
    csv.field_size_limit(2**31 - 1)  # a long text is refused below, with its row
    try:
        rows = list(csv.DictReader(io.StringIO(_content(path), newline="")))
    except csv.Error as error:
        raise FewstepError(f"{path} is not a CSV: {error}.") from None
    columns = [name for name in (rows[0] if rows else {}) if name is not None]
    if not rows:
        raise FewstepError(f"{path} has no rows. The first line names the columns, such as text,label.")
    of_text = _column(path, columns, "text", text, _TEXT_COLUMNS)
    of_label = _column(path, columns, "label", label, _LABEL_COLUMNS) if labeled else ""
    texts = [_checked(row[of_text] or "", f"Row {n + 1} of {path}") for n, row in enumerate(rows)]
    labels = [(row[of_label] or "").strip() for row in rows] if labeled else []
    if "" in labels:
        raise FewstepError(f"Row {labels.index('') + 1} of {path} has no {of_label!r}. Label it, or remove it.")
    return Texts(texts, labels)


def _column(path: Path, columns: Sequence[str], what: str, name: str, usual: tuple[str, ...]) -> str:
    if name in columns:
        return name
    there = next((column for column in usual if column in columns), None)
    if not name and there is not None:
        return there
    fact = f"{path} has no column {name!r}" if name else f"{path} has no column called {' or '.join(usual)}"
    raise FewstepError(f"{fact}. It has {', '.join(columns)}. Name the one of each {what} with `{what}`.")


def _read_folder(path: Path, *, labeled: bool) -> Texts:
    files = sorted(path.glob("*/*.txt")) if labeled else sorted([*path.glob("*.txt"), *path.glob("*/*.txt")])
    if not files:
        where = "folder of .txt files per class" if labeled else ".txt file"
        raise FewstepError(f"{path} has no {where}. Give one, or a CSV with a column of texts.")
    return Texts([_checked(_content(file), str(file)) for file in files], [file.parent.name for file in files])


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FewstepError(f"{path} is not text in UTF-8. Save it as UTF-8.") from None
    except OSError as error:
        raise FewstepError(f"Cannot read {path}: {error.strerror or error}.") from None


def _checked(text: str, name: str) -> str:
    if not text.strip():
        raise FewstepError(f"{name} has an empty text. Write something, or remove it.")
    if len(text) > _MAX_CHARACTERS:
        raise FewstepError(
            f"{name} has a text of {len(text):,} characters; at most {_MAX_CHARACTERS:,} are taken, of which the first "
            "few hundred words are read. Cut it."
        )
    return text


def text_classes(names: Sequence[str], split: str, seed: int, ways: int) -> Classes:
    """The classes of train, validation and test: as a file says, or drawn by the seed, 64%, 16% and 20%.

    **Arguments:** `split`: a JSON file of lists of classes by train, validation and test; a folder with three such
    lists; or the name of such a folder under `splits` where data are looked for, as `clinc150`.
    """
    names = tuple(dict.fromkeys(names))
    if split:
        classes = _listed(split)
        if missing := [name for some in classes.values() for name in some if name not in names]:
            raise FewstepError(f"The split {split} names the class {missing[0]!r}, and no text has it. Correct it.")
    else:
        validation, test = (max(ways, round(share * len(names))) for share in (_SHARES[1], 1 - sum(_SHARES)))
        classes = split_classes(names, seed, (max(0, len(names) - validation - test), validation))
    if short := [f"{part} has {len(some)}" for part, some in classes.items() if len(some) < ways]:
        raise FewstepError(
            f"There are {len(names)} classes, and training, validation and test each need at least the {ways} of a "
            f"task: {' and '.join(short)}. Add classes, or use fewer `ways`."
        )
    return classes


def _listed(split: str) -> Classes:
    folders = [Path(split), *(folder / "splits" / split for folder in _places.folders())]
    place = next((path for path in folders if path.exists()), None)
    if place is None:
        raise FewstepError(
            f"There is no split {split}. Give a JSON file, or a folder of train, validation and test.json."
        )
    try:
        if place.is_dir():
            lists = {part: json.loads((place / f"{part}.json").read_text()) for part in SPLITS}
        else:
            lists = json.loads(place.read_text())
        return {part: tuple(str(name) for name in lists[part]) for part in SPLITS}
    except (OSError, ValueError, KeyError, TypeError):
        fix = '{"train": [...], "validation": [...], "test": [...]}'
        raise FewstepError(f"{place} is not a split. Write lists of classes by name: {fix}") from None
