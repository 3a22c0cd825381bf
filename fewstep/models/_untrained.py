"""An encoder as a model that needs no training: the nearest class mean, by cosine, on its features."""

from typing import Literal

import jax

from fewstep._errors import FewstepError
from fewstep.encoders import find_encoder
from fewstep.experiments import Experiment, build
from fewstep.models._model import Model
from fewstep.problems import Value

TASKS = {"image": "folder:", "text": "text:"}
_NO_CENTER = (0.0,)  # where there are no training classes, features are not centered


def untrained(name: str, **options: Value) -> Model:
    """The model of an encoder by name, such as `efficientnet-lite0`: ready to be adapted, without a run; `options` of
    the encoder as `fewstep train` names them.

    Example::

        adapt(untrained("minilm-l6"), support).answer(query_x).mean
    """
    tasks = TASKS[taken_by(name)]
    built = build(Experiment("metric", tasks, encoder=name, rank=1, center=_NO_CENTER, **options))
    return Model(built, {0: built.learner.init(jax.random.key(0))}, 0)


def taken_by(name: str) -> Literal["image", "text"]:
    """What an encoder takes. Raises `FewstepError` for one of rows of numbers, which has no tasks of its own."""
    modality = find_encoder(name).modality
    if modality == "row":
        raise FewstepError(
            f"The encoder {name} takes rows of numbers, and tasks are made of images or texts. Name an encoder of "
            "these, such as efficientnet-lite0 or minilm-l6."
        )
    return modality
