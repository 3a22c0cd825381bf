"""Trains a model in memory on items by class, behind an encoder."""

from collections.abc import Mapping, Sequence

from fewstep.data import split_classes
from fewstep.encoders import Item
from fewstep.experiments import Experiment, build, network_options
from fewstep.models._fit import kept_metas
from fewstep.models._model import Model
from fewstep.models._reject import calibrate_rejection
from fewstep.models._untrained import TASKS, taken_by
from fewstep.problems import Items, Value, problem_of_items

_VALIDATION = 0.25  # of the classes
_WAYS, _QUERIES = 5, 5


def fit_items(
    encoder: str, classes: Mapping[str, Sequence[Item]], *, method: str = "metric", seed: int = 0, shots: int = 1,
    options: Mapping[str, Value] | None = None,
) -> Model:  # fmt: skip
    """The model of a training whose tasks are made of these classes.

    **Arguments:** `encoder` by name, and its `options` by the experiment's names; a quarter of the classes, drawn by
    the `seed`, are for validation, to choose among the model's states and to calibrate what fits none of the classes.
    """
    modality = taken_by(encoder)
    validation = max(2, round(_VALIDATION * len(classes)))
    parts = split_classes(tuple(classes), seed, (len(classes) - validation, validation))
    items = Items(lambda split: {name: classes[name] for name in parts[split]}, modality, f"{modality}s", lambda: True)
    ways = min(_WAYS, validation - 1) if validation > 2 else 2
    queries = max(1, min(_QUERIES, min(map(len, classes.values())) - shots))
    experiment = Experiment(
        method, TASKS[modality], encoder=encoder, seed=seed, shots=shots, queries=queries, ways=ways,
        validation_ways=ways, **(options or {}),
    )  # fmt: skip
    problem, center = problem_of_items(experiment.kind_options, network_options(experiment), items)
    built = build(experiment.replace(center=center), problem)
    state = built.train().state
    model = Model(built, kept_metas(built, state), int(state.step))
    rejection = calibrate_rejection(model, tuple(sorted({1, 5, shots})), seed=seed)
    return Model(built, model.metas, model.step, rejection=rejection)
