"""Tables: columns by name in; predictions in the target's unit with intervals, or calibrated probabilities, out."""

from typing import NoReturn

import numpy as np

from fewstep._errors import FewstepError
from fewstep.serve.errors import invalid
from fewstep.serve.parsing import check_fields, check_max
from fewstep.serve.schema import Query, Support
from fewstep.serve.served_model import ServedModel, ServingKind, Shapes
from fewstep.serve.task import Adaptation, Answer, Examples, Prediction, Rows, with_band
from fewstep.tables import Schema
from fewstep.tables import read as read_frame
from fewstep.tables._ensemble import Ensemble
from fewstep.tables._interval import Calibration
from fewstep.tables._outside import outside
from fewstep.tables._schema import clamped

_LEVEL = 0.9  # of the intervals


def _parse_support(model: ServedModel, support: Support) -> Examples:
    return _encode(model, support, "support", model.limits.points)


def _parse_query(model: ServedModel, query: Query) -> Rows:
    examples = _encode(model, query, "query", model.limits.queries)
    return Rows(examples.x, examples.outside)


def _encode(model: ServedModel, part: Support | Query, name: str, limit: int) -> Examples:
    """The rows as the network takes them, in a support set with their targets, and how far outside they lie."""
    check_fields(part, name, "columns")
    schema = _schema(model)
    if not part.columns:
        raise invalid("no_columns", f'The {name} has no "columns". Send {{"{schema.names[0]}": [...], ...}}.')
    check_max("points" if name == "support" else "queries", max(map(len, part.columns.values())), limit)
    try:
        frame = read_frame({column: np.asarray(cells, object) for column, cells in part.columns.items()})
        x, y = schema.unbounded(frame), schema.y(frame) if name == "support" else None
        distance = outside(schema, frame._replace(name=f"the {name}"), x, y)
    except FewstepError as error:
        raise invalid("bad_columns", str(error).replace("the table", f"the {name}")) from None
    return Examples(clamped(x), np.zeros(0) if y is None else y, schema.classes or None, outside=distance)


def _format(model: ServedModel, adaptation: Adaptation, rows: Rows, answer: Answer) -> Prediction:
    """Calibrated, if the model is for these settings: probabilities at its temperature, or an interval."""
    calibration = _calibration(model, adaptation)
    if model.has_classes:
        if calibration is None:
            return with_band(adaptation, answer)
        return Prediction(calibration.probabilities(answer.mean.astype(np.float64), adaptation.points))
    target = _schema(model).target
    y = target.decode(answer.mean.astype(np.float64))
    if calibration is None:
        return Prediction(y)
    inside = calibration.half(answer.spread.astype(np.float64), adaptation.points, _LEVEL)
    half = (inside + rows.outside.distance[:, None] + adaptation.outside.distance.max()) * target.scale
    return Prediction(y, y - half, y + half)


def _calibration(model: ServedModel, adaptation: Adaptation) -> Calibration | None:
    """The calibration, if it is for these settings: the training's steps, at their size, and samples."""
    ensemble, (steps, pace, _, samples) = _ensemble(model), adaptation.settings
    return ensemble.calibration if (steps, pace, samples) == (ensemble.steps, 1.0, model.samples) else None


def _shapes(model: ServedModel) -> Shapes:
    schema = _schema(model)
    return Shapes(*model.problem.widths, columns={"x": list(schema.names), "y": schema.target.name})


def _no_tasks(*_: object) -> NoReturn:
    raise invalid("does_not_apply", "A table's tasks are its owner's; none can be drawn. Send rows of your own.")


def _ensemble(model: ServedModel) -> Ensemble:
    assert model.ensemble is not None
    return model.ensemble


def _schema(model: ServedModel) -> Schema:
    return _ensemble(model).schema


TABLES = ServingKind(
    "table", _parse_support, _parse_query, _format, _shapes, _no_tasks, _no_tasks,
    lambda model: sum(model.problem.widths) + len(_schema(model).names),
)  # fmt: skip
