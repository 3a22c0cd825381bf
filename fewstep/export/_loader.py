"""Uses an exported model without fewstep: needs jax, flatbuffers and numpy.

model = Model("folder")
model.adapt_and_predict(support_x, support_y, x)   # arrays as the network sees them
model.answers(support_rows, query_rows)            # for a table: lists of dicts, in your columns and units
"""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import jax.export
import numpy as np

FARTHEST = 5.0  # deviations: a number beyond is taken as there
TOGETHER = 0.25  # deviations from which the mean of several rows counts as outside
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
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
        self._check(support_x)
        return self._ask(support_x, support_y, x)[0]

    def answers(self, support, query, level=0.9):
        """Predictions at rows of a table, each a dict by column, after learning from others that have the target.

        Each answer is a dict: for numbers `prediction`, and `low` and `high` if the model is calibrated; for classes
        `prediction` and `probabilities`.
        """
        self._check(support)
        schema = self.about["schema"]
        target, targets = schema["target"], [schema["target"], *schema.get("more", ())]
        x, at = self._unbounded(support), self._unbounded(query)
        if target["categories"]:
            y = [_number(target, _cell(row, target, "refuse")) for row in support]
            shares, _ = self._ask(_clip(x), y, _clip(at))
            names = target["categories"]
            return [
                {"prediction": names[row.argmax()], "probabilities": dict(zip(names, row.tolist(), strict=True))}
                for row in shares
            ]
        y = np.asarray([[_cells(of, _cell(row, of, "refuse"))[0] for of in targets] for row in support], np.float32)
        kept = _credible(schema.get("credible"), targets, y)
        x, y = x[kept], y[kept]
        mean, spread = self._ask(_clip(x), y, _clip(at))
        scale, middle = [of["scale"] for of in targets], [of["mean"] for of in targets]
        parts = {"prediction": mean}
        if self.about["calibration"] is not None:
            far, residual = self._distance(at), 0.0
            if len(x):
                far += self._distance(x, y).max()
                residual = np.sqrt(np.square(self._ask(_clip(x), y, _clip(x))[0] - y).mean(0))
            half = self._half(spread, residual, len(x), level) + far[:, None]
            parts |= {"low": mean - half, "high": mean + half}
        parts = {name: part * scale + middle for name, part in parts.items()}
        named = lambda name, of: name if len(targets) == 1 else f"{name} of {of['name']}"
        return [
            {named(name, of): float(part[row, n]) for n, of in enumerate(targets) for name, part in parts.items()}
            for row in range(len(query))
        ]

    def encode(self, rows):
        """The features of rows of a table, as the network sees them. Dates are ISO texts, or days since 1970."""
        return _clip(self._unbounded(rows))

    def _check(self, support):
        most = self.about["support_rows"]
        if not 0 < len(support) <= most:
            raise ValueError(f"The support has {len(support)} rows; this export takes 1 to {most}.")

    def _ask(self, support_x, support_y, x):
        size, count = self.about["support_rows"], len(support_x)  # none, where none of them is credible
        kind = np.int32 if self.about["classes"] else np.float32
        arrays = np.asarray(support_x, np.float32), np.asarray(support_y, kind), np.ones(count, np.float32)
        support = [_pad(array, size) for array in arrays]
        mean, spread = self._in_chunks(np.asarray(x, np.float32), lambda rows: self._adapt(*support, rows))
        if self.about["classes"] and self.about["calibration"]:
            mean = _temper(mean, self._at(self.about["calibration"]["temperatures"], count))
        return mean, spread

    def _half(self, spread, residual, shots, level):
        """Half the interval around predictions of that spread, as calibrated on held-out tasks."""
        known = self.about["calibration"]
        floor, ratios = np.asarray(self._at(known["floors"], shots)), self._at(known["ratios"], shots)
        gain = np.asarray(self._at(known["gains"], shots)) if known.get("gains") else 0.0
        if str(level) not in ratios:
            raise ValueError(f"level is {level}. Intervals are calibrated at {', '.join(ratios)}.")
        return np.asarray(ratios[str(level)]) * np.sqrt(np.square(spread) + floor**2 + gain * np.square(residual))

    def _at(self, by_shots, shots):
        """The entry for the largest number of rows that is not more; for the smallest, if all are."""
        return by_shots[str(max([int(n) for n in by_shots if int(n) <= shots], default=min(map(int, by_shots))))]

    def _distance(self, x, y=None):
        """How far rows lie outside of what training had, in deviations."""
        schema, place, apart = self.about["schema"], 0, []
        for column in schema["features"]:
            width = _width(column)
            apart.append(_beyond(column, x[:, place : place + width]))
            place += width
        if y is not None:
            apart += [_beyond(of, y[:, n : n + 1]) for n, of in enumerate([schema["target"], *schema.get("more", ())])]
        distance = np.sqrt(np.square(np.stack(apart, axis=1)).sum(1))
        if y is not None and schema.get("typical"):
            distance = np.maximum(distance, _untypical(schema["typical"], _clip(x).astype(float), y))
        return distance

    def _unbounded(self, rows):
        schema = self.about["schema"]
        unknown = schema.get("unknown", "refuse")
        cells = lambda row, column: _cells(column, _cell(row, column, schema["missing"]), unknown)
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


def _cells(column, value, unknown="refuse"):
    """A cell of a table as the numbers it becomes; an empty one is the training's mean, or the middle of a cycle."""
    if value is not None and (column["kind"] == "date" or column.get("part")):
        value = _part(column.get("part"), _days(value))
    if column["kind"] == "category":
        number = None if value is None else _number(column, value, unknown)
        return [float(number == n) for n in range(len(column["categories"]))]
    if value is None:
        return [0.0] * _width(column)
    if column.get("period"):
        angle = 2 * np.pi * float(value) / column["period"]
        return [float(np.sin(angle)), float(np.cos(angle))]
    return [(float(value) - column["mean"]) / column["scale"]]


def _width(column):
    """How many numbers a column becomes."""
    return len(column["categories"]) if column["kind"] == "category" else 2 if column.get("period") else 1


def _part(part, days):
    """The part of a date, in days since 1970, that a feature is."""
    moment = datetime(1970, 1, 1) + timedelta(days=days)
    if part == "weekday":
        return WEEKDAYS[moment.weekday()]
    return days - (datetime(moment.year, 1, 1) - datetime(1970, 1, 1)).days + 1 if part == "day-of-year" else days


def _days(moment):
    """Days since 1970 of a date, an ISO text or a number of days; a moment with an offset is converted to UTC."""
    if not isinstance(moment, str | date):
        return float(moment)
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400


def _number(column, value, unknown="refuse"):
    """The number of a category; whole numbers are written without a point. None of an unknown one that is allowed."""
    name = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    if name not in column["categories"] and unknown == "allow":
        return None
    if name not in column["categories"]:
        names = ", ".join(column["categories"])
        raise ValueError(f"{name!r} in the column {column['name']!r} is not what training had. Known: {names}.")
    return column["categories"].index(name)


def _ends(column):
    """The ends of a number's range in training, in deviations."""
    return tuple((end - column["mean"]) / column["scale"] for end in (column["low"], column["high"]))


def _credible(share, targets, y):
    """Which rows are learned from: none whose target lies more than that share of training's range outside it, and
    none at all if several, and more than a quarter, are such."""
    low, high = np.asarray([_ends(of) for of in targets]).T
    far = np.inf if share is None else share * (high - low)
    kept = ((y >= low - far) & (y <= high + far)).all(1)
    absurd = len(kept) - kept.sum()
    return kept & (absurd < 2 or 4 * absurd <= len(kept))


def _beyond(column, x):
    """How far numbers of a column lie outside of training's, in deviations; of a cycle, the angle from its arc."""
    if column["kind"] == "category":
        return np.zeros(len(x))
    if not column.get("period"):
        low, high = _ends(column)
        return np.maximum(np.maximum(low - x[:, 0], x[:, 0] - high), 0)
    if column["low"] is None:
        return np.zeros(len(x))
    turn, period = 2 * np.pi, column["period"]
    place = np.arctan2(x[:, 0], x[:, 1]) % turn * period / turn
    after = (place - column["low"]) % period
    far = np.maximum(np.minimum(after - (column["high"] - column["low"]), period - after), 0) * turn / period
    return np.where(np.square(x).sum(1) > 0.5, far, 0.0)


def _untypical(typical, x, y):
    """How far rows to learn from lie outside what training had: targets beside their features, and all together."""
    terms = np.concatenate([np.ones((len(x), 1)), x, np.square(x)], axis=1)
    left = y - terms @ np.asarray(typical["weights"])

    def beyond(x, left):
        at = max(n for n, size in enumerate(typical["sizes"]) if size <= len(x))
        mean, low, high = np.hstack([x, left]).mean(0), np.asarray(typical["low"][at]), np.asarray(typical["high"][at])
        return np.maximum(np.maximum(low - mean, mean - high), 0)[x.shape[1] if len(x) == 1 else 0 :].max()

    alone = [beyond(x[n : n + 1], left[n : n + 1]) for n in range(len(x))]
    together = beyond(x, left)
    return np.maximum(alone, together if together > TOGETHER else 0)


def _temper(shares, temperature):
    """Probabilities p as p^(1 / T), brought to the sum 1."""
    logs = np.log(np.maximum(shares.astype(float), np.finfo(float).eps)) / temperature
    powers = np.exp(logs - logs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _clip(x):
    return np.clip(x, -FARTHEST, FARTHEST).astype(np.float32)


def _pad(array, rows):
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
