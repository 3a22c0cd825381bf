"""Uses an exported model without fewstep: needs jax, flatbuffers and numpy.

model = Model("folder")
model.adapt_and_predict(support_x, support_y, x)   # arrays as the network sees them
model.answers(support_rows, query_rows)            # for a table: lists of dicts, in your columns and units
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
        """What it says of a task that it has no rows of."""
        return self._in_chunks(np.asarray(x, np.float32), self._predict)[0]

    def adapt_and_predict(self, support_x, support_y, x):
        """Learns from the support and predicts at x; probabilities, if the model has classes."""
        return self._ask(support_x, support_y, x)[0]

    def answers(self, support, query, level=0.9):
        """Predictions at rows of a table, each a dict by column, after learning from others that have the target.

        Each answer is a dict: for numbers `prediction`, and `low` and `high` if the model is calibrated; for classes
        `prediction` and `probabilities`.
        """
        target = self.about["schema"]["target"]
        x, at = self._unbounded(support), self._unbounded(query)
        if target["categories"]:
            y = [_number(target, _cell(row, target, "refuse")) for row in support]
            shares, _ = self._ask(_clip(x), y, _clip(at))
            names = target["categories"]
            return [
                {"prediction": names[row.argmax()], "probabilities": dict(zip(names, row.tolist(), strict=True))}
                for row in shares
            ]
        y = np.asarray([_cells(target, _cell(row, target, "refuse")) for row in support], np.float32)
        mean, spread = self._ask(_clip(x), y, _clip(at))
        middle = mean[:, 0] * target["scale"] + target["mean"]
        if self.about["calibration"] is None:
            return [{"prediction": value} for value in middle.tolist()]
        far = self._distance(x, y).max() + self._distance(at)
        half = (self._half(spread[:, 0], len(support), level) + far) * target["scale"]
        ends = zip(middle.tolist(), (middle - half).tolist(), (middle + half).tolist(), strict=True)
        return [{"prediction": value, "low": low, "high": high} for value, low, high in ends]

    def encode(self, rows):
        """The features of rows of a table, as the network sees them. Dates are ISO texts, or days since 1970."""
        return _clip(self._unbounded(rows))

    def _ask(self, support_x, support_y, x):
        size, count = self.about["support_rows"], len(support_x)
        if not 0 < count <= size:
            raise ValueError(f"The support has {count} rows; this export takes 1 to {size}.")
        kind = np.int32 if self.about["classes"] else np.float32
        arrays = np.asarray(support_x, np.float32), np.asarray(support_y, kind), np.ones(count, np.float32)
        support = [_pad(array, size) for array in arrays]
        mean, spread = self._in_chunks(np.asarray(x, np.float32), lambda rows: self._adapt(*support, rows))
        if self.about["classes"] and self.about["calibration"]:
            mean = _temper(mean, self._at(self.about["calibration"]["temperatures"], count))
        return mean, spread

    def _half(self, spread, shots, level):
        """Half the interval around predictions of that spread, as calibrated on held-out tasks."""
        known = self.about["calibration"]
        floor, ratios = self._at(known["floors"], shots), self._at(known["ratios"], shots)
        if str(level) not in ratios:
            raise ValueError(f"level is {level}. Intervals are calibrated at {', '.join(ratios)}.")
        return ratios[str(level)] * np.sqrt(np.square(spread) + floor**2)

    def _at(self, by_shots, shots):
        """The entry for the largest number of rows that is not more; for the smallest, if all are."""
        return by_shots[str(max([int(n) for n in by_shots if int(n) <= shots], default=min(map(int, by_shots))))]

    def _distance(self, x, y=None):
        """How far rows lie outside of what training had, in deviations."""
        features, target = self.about["schema"]["features"], self.about["schema"]["target"]
        ends = [
            (-np.inf, np.inf) if column["kind"] == "category" else _ends(column)
            for column in features
            for _ in range(len(column["categories"]) if column["kind"] == "category" else 1)
        ]
        if y is not None:
            x, ends = np.concatenate([x, y], axis=1), [*ends, _ends(target)]
        low, high = np.asarray(ends, float).T
        return np.sqrt(np.square(np.maximum(np.maximum(low - x, x - high), 0)).sum(1))

    def _unbounded(self, rows):
        schema = self.about["schema"]
        cells = lambda row, column: _cells(column, _cell(row, column, schema["missing"]))
        return np.asarray([[cell for column in schema["features"] for cell in cells(row, column)] for row in rows])

    def _in_chunks(self, x, function):
        size = self.about["query_rows"]
        if not len(x):
            raise ValueError("There are no rows to predict at. Give at least one.")
        chunks = [x[begin : begin + size] for begin in range(0, len(x), size)]
        parts = [[np.asarray(part)[: len(chunk)] for part in function(_pad(chunk, size))] for chunk in chunks]
        return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _cell(row, column, missing):
    """What a row has in a column, None if that is nothing and may be."""
    if column["name"] not in row:
        raise ValueError(f"A row has no column {column['name']!r}. It has: {', '.join(map(str, row))}.")
    value = row[column["name"]]
    empty = value is None or value != value or str(value).strip().lower() in NOTHING
    if empty and missing == "refuse":
        raise ValueError(f"The column {column['name']!r} is empty in a row. Fill it in, or leave the row out.")
    return None if empty else value


def _cells(column, value):
    """A cell of a table as the numbers it becomes; an empty one is the training's mean."""
    if column["kind"] == "category":
        number = None if value is None else _number(column, value)
        return [float(number == n) for n in range(len(column["categories"]))]
    if value is None:
        return [0.0]
    if column["kind"] == "date" and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date):
        value = _days(value)
    return [(float(value) - column["mean"]) / column["scale"]]


def _days(moment):
    """Days since 1970; a moment with an offset is converted to UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400


def _number(column, value):
    """The number of a category; whole numbers are written without a point."""
    name = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    if name not in column["categories"]:
        names = ", ".join(column["categories"])
        raise ValueError(f"{name!r} in the column {column['name']!r} is not what training had. Known: {names}.")
    return column["categories"].index(name)


def _ends(column):
    """The ends of a number's range in training, in deviations."""
    return tuple((end - column["mean"]) / column["scale"] for end in (column["low"], column["high"]))


def _temper(shares, temperature):
    """Probabilities p as p^(1 / T), brought to the sum 1."""
    logs = np.log(np.maximum(shares.astype(float), np.finfo(float).eps)) / temperature
    powers = np.exp(logs - logs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _clip(x):
    return np.clip(x, -FARTHEST, FARTHEST).astype(np.float32)


def _pad(array, rows):
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
