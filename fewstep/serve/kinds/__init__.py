"""The kinds of problems that can be served, one per module: what requests hold, what answers look like, and sizes."""

from collections.abc import Sequence
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment
from fewstep.runs import load
from fewstep.serve.kinds.curves import CURVES
from fewstep.serve.kinds.images import IMAGES
from fewstep.serve.kinds.tables import TABLES
from fewstep.serve.limits import Limits
from fewstep.serve.served_model import ServedModel, ServingKind


def kind_of(experiment: Experiment) -> ServingKind:
    """The kind of an experiment's tasks."""
    return IMAGES if experiment.has_images else TABLES if experiment.has_table else CURVES


def load_models(runs: Sequence[Path | str], limits: Limits) -> dict[str, ServedModel]:
    """The models of run folders, or of the package, by name. Raises `FewstepError` for two of one name."""
    models: dict[str, ServedModel] = {}
    for run in runs:
        name = Path(run).resolve().name if Path(run).exists() else str(run)
        if name in models:
            raise FewstepError(f"Two runs are named {name}, and a model's name is its folder's. Rename one of them.")
        source = load(run)
        kind = kind_of(source.run.experiment)
        models[name] = ServedModel(name, kind, source, limits.cap(**kind.bounds))
        _ = models[name].metas  # so that a run of which every seed diverged is refused before the service starts
    return models
