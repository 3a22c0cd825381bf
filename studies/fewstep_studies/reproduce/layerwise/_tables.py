"""What is shown of the table: text, and accuracy against time."""

import math
from collections.abc import Mapping, Sequence

from fewstep_studies.reproduce._figure import Figure, keys, lines, rows_of, style
from fewstep_studies.reproduce._rows import Result, Row
from fewstep_studies.reproduce._study import Table
from fewstep_studies.reproduce.layerwise._rows import COLUMNS, Claims, Summary, summary_of

NAMES = ("H*", "CKA", "MSE", "CE", "C", "T")  # the measures in our definition
HEAD = ["set", "method", "", "sigma", *COLUMNS, ""]
OURS = ["set", "method", *NAMES]
REAL = ["method", "sets", "mean test accuracy", "ISM's", "ISM's time, of its", "largest"]
SCORES = ["set", "method", "test accuracy", "seconds", "ISM's time is"]
LEGENDS = {
    "poster": (
        "Mean ± standard deviation over the test folds; * is ours, not the authors'. MSE, CE, C and T as the authors "
        "define them for each method. Published: the poster; for W_s, on a third line, the authors' later files. ISM "
        "meets the poster where each column but time is within two of its deviations, or .01 where that is more; W_s "
        "meets where its test accuracy is within .05 of the later files. Test rows are scaled with the training rows' "
        "statistics."
    ),
    "ours": "The same networks, every measure in one definition for all, of the features that the read-out reads.",
    "real": (
        "Wine, cancer, UCI car, face and divorce, those that are here: the mean over these sets of the test accuracy "
        "of the method and of ISM with balanced classes, and how long ISM takes for each second of the method: the "
        "median and the largest over the sets."
    ),
    "scores": (
        "One fold's fit alone, without compiling and without calibration. The comparisons are scikit-learn's at their "
        "defaults, columns scaled."
    ),
}  # fmt: skip


_TITLES = {
    "poster": "The poster's table", "ours": "One definition for all", "scores": "Accuracy and time",
    "real": "On real data sets", "sets": "The sets", "claims": "The claims",
}  # fmt: skip
_MARKS = {"poster": "layerwise"}


def tables(result: Result) -> list[Table]:
    """The tables of a result; the poster's and the scores are printed as well."""
    rows = [summary_of(row) for row in result.rows]
    measured = [row for row in rows if row.ours]
    sheets: dict[str, tuple[list[str], list[list[str]]]] = {
        "poster": (HEAD, [line for row in measured for line in _lines(row)]),
        "ours": (OURS, [[row.set, row.label, *(_pair(row.ours[name]) for name in NAMES)] for row in measured]),
        "scores": (SCORES, [_score(row, rows) for row in rows]),
    }
    if real := _real(rows):
        sheets["real"] = (REAL, real)
    sheets["sets"] = (["set", "what"], [[name, what] for name, what in {row.set: row.what for row in rows}.items()])
    if claims := result.more.get("claims"):
        sheets["claims"] = claims_table(claims)
    return [
        Table(_MARKS.get(name, f"layerwise {name}"), head, body, _TITLES[name], LEGENDS.get(name, ""),
              brief=name in ("poster", "scores"))
        for name, (head, body) in sheets.items()
    ]  # fmt: skip


def claims_table(claims: Mapping[str, Claims]) -> tuple[list[str], list[list[str]]]:
    """What was measured of each claim, a line per set."""
    head = [
        "set", "Theorem 1: H* of W_s", "refused", "ended by", "Claim 4: slope at W_s", "Claim 5: residual of W*",
        "layers W* / W_s", "Claim 6: attraction, penalty, last layer",
    ]  # fmt: skip
    return head, [[name, *_claims(record)] for name, record in claims.items()]


def _claims(record: Claims) -> list[str]:
    rise, last = record["rise"], record["penalty"][-1]
    return [
        " ".join(f"{value:.2f}" for value in rise["dependence"]),
        " ".join(map(str, [*rise["refused"], rise["refused_at_the_end"]])), rise["why"],
        f"{record['slope_at_embedding']['slope']:.2f}",
        " ".join(f"{part['residual']:.1g}" for part in record["fixed_point"]),
        f"{record['layers']['ism']} / {record['layers']['ws']}", f"{last['attraction']:.4g}, {last['penalty']:.4g}",
    ]  # fmt: skip


def _lines(row: Summary) -> list[list[str]]:
    own = [row.set, row.label, _folds(row), _number(row.sigma[0] if row.sigma else None)]
    lines = [[*own, *(_pair(pair) for pair in row.columns().values()), row.verdict]]
    for name, published in (("poster", row.published), ("later files", row.later)):
        if published is not None:
            values = (_pair(published[column]) for column in COLUMNS)
            lines.append(["", "", name, _number(published["sigma"]), *values, ""])
    return lines


def _folds(row: Summary) -> str:
    folds = "ours" if row.folds >= 10 else f"ours, {row.folds} folds"
    return folds if row.timed in (None, row.folds) else f"{folds}, {row.timed} of them timed"


def _seconds(row: Summary) -> float:
    """The mean time of a fold, not a number where none was timed."""
    return row.seconds[0] if row.seconds else math.nan


def _score(row: Summary, rows: list[Summary]) -> list[str]:
    ism = next((other for other in rows if other.set == row.set and other.method == "ism"), None)
    ratio = math.nan if ism is None or ism is row else _seconds(ism) / _seconds(row)
    time = _number(row.seconds[0] if row.seconds else None)
    return [row.set, row.label, _pair(row.test), time, "" if math.isnan(ratio) else f"{ratio:.2g} of it"]


def _real(rows: list[Summary]) -> list[list[str]]:
    """Each method against ISM with balanced classes on the real data sets that both have."""
    ism = {row.set: row for row in rows if row.method == "ism-balanced" and row.real}
    lines = []
    for method in dict.fromkeys(row.method for row in rows if row.method != "ism-balanced"):
        pairs = [(row, ism[row.set]) for row in rows if row.method == method and row.set in ism]
        if pairs:
            ratios = sorted(ratio for row, own in pairs if not math.isnan(ratio := _seconds(own) / _seconds(row)))
            median, largest = (ratios[len(ratios) // 2], ratios[-1]) if ratios else (math.nan, math.nan)
            tests = [f"{sum(row.test[0] for row in some) / len(some):.3f}" for some in zip(*pairs, strict=True)]
            lines.append([pairs[0][0].label, str(len(pairs)), *tests, f"{median:.2g}", f"{largest:.2g}"])
    return lines


def figures(rows: list[Row]) -> list[Figure]:
    """Test accuracy against the time of a fit, a panel per set."""
    summaries = [summary_of(row) for row in rows]
    data = [(row.set, row.label, _seconds(row), *row.test) for row in summaries]
    looks = {
        label: {"color": style(n)["color"], "marker": "osD^vP*"[n % 7], "linestyle": "none", "markersize": 5}
        for n, label in enumerate(dict.fromkeys(row.label for row in summaries))
    }
    return [Figure(
        "accuracy-by-time", "Test accuracy against the time of a fit",
        "A point per method: mean over the folds, bars of one deviation; seconds of one fit, without compiling.",
        [
            lines(name, rows_of(data, name), "seconds", "test accuracy", looks=looks, xscale="log", bars=True)
            for name in keys(data)
        ],
        ("set", "method", "seconds", "test", "deviation"), data,
    )]  # fmt: skip


def _pair(pair: Sequence[float] | None) -> str:
    return "-" if pair is None else f"{_number(pair[0])} ± {_number(pair[1])}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
