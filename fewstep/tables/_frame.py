"""Tables as they come: from a CSV or Parquet file, a data frame, or a dict of arrays."""

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np
from numpy.typing import ArrayLike

from fewstep._errors import FewstepError, unknown

LARGEST = 1 << 30  # bytes of a CSV file: its cells are held as text while it is read
_LIMIT = 1 << 20  # of one cell
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_LOOKED_AT = 20  # lines


class Frame(NamedTuple):
    """Columns by name, each an array of text, numbers or dates.

    `lines` says where each row stands in what it was read from, counted in `unit`s; `categories` are the columns that
    were declared to be such, whatever they look like. `decimal_commas` says that no comma separates its cells, so that
    3,5 may be a number, and `date_order` how to read dates such as 03/04/2024.
    """

    name: str
    columns: dict[str, np.ndarray]
    lines: np.ndarray | None = None
    unit: str = "Row"
    categories: frozenset[str] = frozenset()
    decimal_commas: bool = False
    date_order: Literal["", "day-first", "month-first"] = ""

    @property
    def rows(self) -> int:
        """How many."""
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> np.ndarray:
        """One column. Raises `FewstepError` if it is not there."""
        if name not in self.columns:
            raise unknown(f"column of {self.name}", name, self.columns)
        return self.columns[name]

    def where(self, row: int) -> str:
        """A row as a user finds it again."""
        return f"{self.unit} {row + 1 if self.lines is None else self.lines[row]} of {self.name}"

    def only(self, rows: np.ndarray) -> "Frame":
        """These rows."""
        lines = np.arange(1, self.rows + 1) if self.lines is None else self.lines
        return self._replace(columns={name: column[rows] for name, column in self.columns.items()}, lines=lines[rows])


def read(source: Any, wanted: Sequence[str] | None = None) -> Frame:
    """The columns that are wanted, all by default, of a path, a data frame (pandas, polars) or a dict of arrays."""
    if isinstance(source, Frame):
        return source
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        return _parquet(path, wanted) if path.suffix.lower() in (".parquet", ".pq") else _csv(path, wanted)
    if isinstance(source, Mapping):
        return _checked("the table", list(source), lambda name: source[name], wanted)
    if hasattr(source, "columns"):
        frame = _checked("the table", list(source.columns), lambda name: source[name].to_numpy(), wanted)
        declared = [name for name in source.columns if str(source[name].dtype) in ("category", "Categorical", "Enum")]
        return frame._replace(categories=frozenset(map(str, declared)) & set(frame.columns))
    raise FewstepError(
        f"A {type(source).__name__} is not a table. Give a CSV or Parquet file, a data frame, or a dict."
    )


def _checked(
    name: str, names: list[Hashable], get: Callable[[Hashable], ArrayLike], wanted: Sequence[str] | None
) -> Frame:
    _check_names(name, [str(n) for n in names], wanted)
    original = {str(n): n for n in names}
    columns = {n: np.asarray(get(original[n])) for n in (wanted or original)}
    sizes = {n: len(column) for n, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise FewstepError(f"The columns of {name} have unequal lengths: {sizes}. Each row needs a cell of each.")
    return _not_empty(Frame(name, columns))


def _csv(path: Path, wanted: Sequence[str] | None) -> Frame:
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise FewstepError(
                f"{path} has {size / 2**30:.1f} GB, and a CSV file is read up to {LARGEST / 2**30:.0f} GB. Keep only "
                "the columns that you need, or save it as Parquet, of which only these are read."
            )
        csv.field_size_limit(_LIMIT)
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _lines(path, file, wanted)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        fix = "it is not text in UTF-8. Save it again, as CSV UTF-8 in a spreadsheet's list of formats"
        reason = fix if isinstance(error, UnicodeDecodeError) else _reason(error)
        raise FewstepError(f"Cannot read {path}: {reason}.") from None


def _lines(path: Path, file: TextIO, wanted: Sequence[str] | None) -> Frame:
    separator = _separator(file)
    reader = csv.reader(file, delimiter=separator)
    names = [cell.strip() for cell in next(reader, [])]
    _check_names(str(path), [name for name in names if name], wanted)  # a frame's index is often written without a name
    places = [names.index(name) for name in wanted or names if name]
    rows, lines = [], []
    for line in reader:
        if not any(cell.strip() for cell in line):
            continue
        if len(line) != len(names):
            raise FewstepError(
                f"Line {reader.line_num} of {path} has {len(line)} cells, the first line {len(names)}. Every line "
                f"needs one for each column; text with a {_SEPARATORS[separator]} in it stands in quotes."
            )
        rows.append([line[number].strip() for number in places])
        lines.append(reader.line_num)
    columns = {names[n]: np.asarray([row[i] for row in rows], object) for i, n in enumerate(places)}
    return _not_empty(Frame(str(path), columns, np.asarray(lines), "Line", decimal_commas=separator != ","))


def _parquet(path: Path, wanted: Sequence[str] | None) -> Frame:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise FewstepError(f"Reading {path} needs pyarrow: pip install 'fewstep[tables]'. Or save it as CSV.") from None
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_names(str(path), names, wanted)
            table = file.read(columns=list(wanted) if wanted else None)
    except (OSError, arrow.ArrowException) as error:
        raise FewstepError(f"Cannot read {path}: {_reason(error)}.") from None
    # Categories that are stored by number would lose their empty cells on the way to NumPy.
    stored = {n for n in (wanted or names) if arrow.types.is_dictionary(table[n].type)}
    of_pandas = (table.schema.pandas_metadata or {}).get("columns", ())
    declared = stored | {column["name"] for column in of_pandas if column["pandas_type"] == "categorical"} & {
        *table.column_names
    }
    plain = {n: table[n].cast(table[n].type.value_type) if n in stored else table[n] for n in (wanted or names)}
    frame = Frame(str(path), {n: column.to_numpy() for n, column in plain.items()}, categories=frozenset(declared))
    return _not_empty(frame)


def _check_names(of: str, names: list[str], wanted: Sequence[str] | None) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FewstepError(f"{of} has the column {twice[0]!r} {names.count(twice[0])} times. Rename all but one.")
    if not names or "" in names:
        raise FewstepError(f"The first line of {of} must name every column. It is: {', '.join(names) or 'empty'}.")
    for name in wanted or ():
        if name not in names:
            raise unknown(f"column of {of}", name, names)


def _separator(file: TextIO) -> str:
    """What stands between the cells of a file: that which gives its first lines equally many, at least two; else that
    which gives the first line most."""
    lines = [line for line, _ in zip(file, range(_LOOKED_AT), strict=False) if line.strip()]
    file.seek(0)
    sizes = {separator: [len(row) for row in csv.reader(lines, delimiter=separator)] for separator in _SEPARATORS}
    even = [separator for separator, size in sizes.items() if size and size[0] > 1 and len(set(size)) == 1]
    return even[0] if even else max(sizes, key=lambda separator: sizes[separator][:1])


def _not_empty(frame: Frame) -> Frame:
    if not frame.rows:
        raise FewstepError(f"{frame.name} has no rows. A table needs at least one below its names.")
    return frame


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error).splitlines()[0]).rstrip(".")
