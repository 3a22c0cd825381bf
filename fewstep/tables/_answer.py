"""From rows that are known and rows that are asked, of one task or several, to answers in the user's unit."""

from typing import Any, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._ensemble import Ensemble, learn_from
from fewstep.tables._frame import Frame
from fewstep.tables._outside import outside
from fewstep.tables._table import task_names


class Answered(NamedTuple):
    """The columns of an answer, and what to be warned of: rows that lie far outside what training had."""

    columns: dict[str, np.ndarray]
    warnings: list[str]


def answer(
    ensemble: Ensemble, known: Frame, asked: Frame, *, level: float = 0.9, steps: int | None = None, seed: int = 0
) -> Answered:
    """Learns each task from its own known rows, and answers at those that are asked of it.

    Rows are of one task unless the column that names the task says otherwise. Then both tables need it, and no task may
    be asked about of which nothing is known.
    """
    alone = lambda some, rows: learn_from(ensemble, some, steps=steps, seed=seed).answers(rows, level)
    known_of, asked_of = _names(known, ensemble.schema.task), _names(asked, ensemble.schema.task)
    if known_of is None or asked_of is None:
        _refuse_several(known, asked, known_of, asked_of, ensemble.schema.task)
        return Answered(alone(known, asked), _warnings(ensemble, known, asked))
    if len(strange := np.flatnonzero(~np.isin(asked_of, known_of))):
        raise FewstepError(
            f"{asked.where(int(strange[0]))} asks about {asked_of[strange[0]]!r} in the column "
            f"{ensemble.schema.task!r}, and {known.name} has no row of it. It has: {_list(known_of)}."
        )
    made: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(asked_of.tolist()):
        rows = np.flatnonzero(asked_of == name)
        for column, values in alone(known.only(np.flatnonzero(known_of == name)), asked.only(rows)).items():
            made.setdefault(column, np.empty(asked.rows, values.dtype))[rows] = values
    return Answered(made, _warnings(ensemble, known, asked))


def _warnings(ensemble: Ensemble, known: Frame, asked: Frame) -> list[str]:
    schema = ensemble.schema
    learned = outside(schema, known, schema.unbounded(known), schema.y(known))
    return [*learned.notes, *outside(schema, asked, schema.unbounded(asked)).notes]


def rounded(ensemble: Ensemble, values: list[Any]) -> list[Any]:
    """Answers with six figures of what the target varies by: more would only look exact. Classes stay as they are."""
    scale = 1.0 if ensemble.schema.classes else ensemble.schema.target.scale
    figures = 5 - int(np.floor(np.log10(scale)))
    return [round(value, figures) if isinstance(value, float) else value for value in values]


def _names(frame: Frame, task: str | None) -> np.ndarray | None:
    return task_names(frame, task) if task is not None and task in frame.columns else None


def _refuse_several(
    known: Frame, asked: Frame, known_of: np.ndarray | None, asked_of: np.ndarray | None, task: str | None
) -> None:
    for names, there, other in ((known_of, known, asked), (asked_of, asked, known)):
        if names is not None and len(set(names.tolist())) > 1:
            raise FewstepError(
                f"{there.name} has rows of {len(set(names.tolist()))} tasks ({_list(names)}), and {other.name} has no "
                f"column {task!r} to say which its rows belong to. Add it, or give one task at a time."
            )


def _list(names: np.ndarray) -> str:
    different = list(dict.fromkeys(names.tolist()))
    return ", ".join(map(str, different[:5])) + (", ..." if len(different) > 5 else "")
