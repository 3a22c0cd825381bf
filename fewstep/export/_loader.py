"""Uses an exported model without fewstep: needs jax, flatbuffers and numpy.

model = Model("folder")
model.adapt_and_predict(support_x, support_y, x)   # arrays as the network sees them
model.answers(known_rows, asked_rows)              # of a table: lists of dicts, in your columns and units
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import jax.export
import numpy as np

FARTHEST = 5.0  # deviations: a number beyond is taken as there
NOTHING = ("", "na", "n/a", "nan", "null", "none", "?", "nat", "<na>")


class Model:
    """An exported model: `about` is its description."""

    def __init__(self, folder="."):
        folder = Path(folder)
        self.about = json.loads((folder / "description.json").read_text())
        read = lambda name: jax.export.deserialize(bytearray((folder / f"{name}.stablehlo").read_bytes()))
        self._adapt, self._predict = read("adapt_and_predict").call, read("predict").call

    def predict(self, x):
        """What it says of a task that it knows nothing of."""
        return self._in_chunks(np.asarray(x, np.float32), self._predict)

    def adapt_and_predict(self, support_x, support_y, x):
        """Learns from the support and predicts at x; probabilities, if the model has classes."""
        most, count = self.about["support_rows"], len(support_x)
        if not 0 < count <= most:
            raise ValueError(f"The support has {count} rows; this export takes 1 to {most}.")
        kind = np.int32 if self.about["classes"] else np.float32
        known = np.asarray(support_x, np.float32), np.asarray(support_y, kind), np.ones(count, np.float32)
        known = [_padded(array, most) for array in known]
        return self._in_chunks(np.asarray(x, np.float32), lambda asked: self._adapt(*known, asked))

    def answers(self, known, asked):
        """Predictions at rows of a table, each a dict by column, after learning from others that have the target."""
        target = self.about["schema"]["target"]
        if target["categories"]:
            y = [_known(target, _cell(row, target, "refuse")) for row in known]
            made = self.adapt_and_predict(self.encode(known), y, self.encode(asked))
            return [target["categories"][n] for n in made.argmax(1)]
        y = [_cells(target, _cell(row, target, "refuse")) for row in known]
        made = self.adapt_and_predict(self.encode(known), y, self.encode(asked))
        return (made[:, 0] * target["scale"] + target["mean"]).tolist()

    def encode(self, rows):
        """The features of rows of a table, as the network sees them. Dates are ISO texts, or days since 1970."""
        schema = self.about["schema"]
        cells = lambda row, column: _cells(column, _cell(row, column, schema["missing"]))
        made = [[cell for column in schema["features"] for cell in cells(row, column)] for row in rows]
        return np.clip(np.asarray(made, np.float32), -FARTHEST, FARTHEST)

    def _in_chunks(self, x, function):
        size = self.about["query_rows"]
        if not len(x):
            raise ValueError("There are no rows to predict at. Give at least one.")
        chunks = [x[begin : begin + size] for begin in range(0, len(x), size)]
        return np.concatenate([np.asarray(function(_padded(chunk, size)))[: len(chunk)] for chunk in chunks])


def _cell(row, column, missing):
    """What a row has in a column, None if that is nothing and may be."""
    if column["name"] not in row:
        raise ValueError(f"A row has no column {column['name']!r}. It has: {', '.join(map(str, row))}.")
    value = row[column["name"]]
    empty = value is None or value != value or str(value).strip().lower() in NOTHING
    if empty and missing == "refuse":
        raise ValueError(f"A row has nothing in the column {column['name']!r}. Fill it in, or leave the row out.")
    return None if empty else value


def _cells(column, value):
    """A cell of a table as the numbers it becomes; an empty one is the training's mean."""
    if column["kind"] == "category":
        number = None if value is None else _known(column, value)
        return [float(number == n) for n in range(len(column["categories"]))]
    if value is None:
        return [0.0]
    if column["kind"] == "date" and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date):
        value = _days(value)
    return [(float(value) - column["mean"]) / column["scale"]]


def _days(moment):
    """Days since 1970; a moment with an offset is told in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400


def _known(column, value):
    """The number of a category; whole numbers are told without a point."""
    told = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    if told not in column["categories"]:
        known = ", ".join(column["categories"])
        raise ValueError(f"{told!r} in the column {column['name']!r} is not what training had. Known: {known}.")
    return column["categories"].index(told)


def _padded(array, rows):
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
