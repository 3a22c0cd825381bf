"""An encoder as a model that needs no training: the nearest class mean, by cosine, on its features."""

import jax

from fewstep._errors import FewstepError
from fewstep.encoders import find_encoder
from fewstep.experiments import Experiment, build
from fewstep.models._model import Model

_TASKS = {"image": "folder:", "text": "text:"}
_NO_CENTER = (0.0,)  # where there are no training classes, features are not centered


def untrained(name: str) -> Model:
    """The model of an encoder by name, such as `efficientnet-lite0`: ready to be adapted, without a run.

    Example::

        adapt(untrained("minilm-l6"), support).answer(query_x).mean
    """
    modality = find_encoder(name).modality
    if modality not in _TASKS:
        raise FewstepError(f"The encoder {name} takes {modality}s. Without a run, name one for images or texts.")
    built = build(Experiment("metric", _TASKS[modality], encoder=name, rank=1, center=_NO_CENTER))
    return Model(built, {0: built.learner.init(jax.random.key(0))}, 0)
