"""A trained run out again: compiled functions or parameters in a folder that needs fewstep no more, with a card."""

import json
import struct
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._network import flatten
from fewstep.experiments.learners import trained_ways
from fewstep.experiments.public import file_name, public_tasks
from fewstep.export.card import card
from fewstep.files import write_json, write_text, writing
from fewstep.runs.model import Model
from fewstep.runs.run import version
from fewstep.runs.table_model import ensemble_of

Format = Literal["stablehlo", "npz", "safetensors"]
PLATFORMS = ("cpu", "cuda", "tpu")
_SUPPORT, _QUERY = 64, 64


def export_run(
    model: Model, folder: Path, form: Format, scores: list[dict[str, Any]], *, support: int = _SUPPORT
) -> list[Path]:
    """Writes a run's model into a folder: `adapt_and_predict` and `predict` as StableHLO, or its arrays; beside them a
    description for programs, a card for people, and for StableHLO a loader that needs jax and flatbuffers only.

    **Arguments:** `scores` of `evaluate_run` or `evaluate_table` stand in the card; `support` is the most rows that the
    compiled function can learn from.
    """
    if folder.is_file():
        raise FewstepError(f"{folder} is a file. Choose another --out.")
    about = _about(model, form, support)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    made = _functions(model, folder, about) if form == "stablehlo" else [_arrays(model, folder, form)]
    write_json(folder / "description.json", about)
    write_text(folder / "README.md", card(model, scores, about, [path.name for path in made]))
    return [*made, folder / "description.json", folder / "README.md"]


def _about(model: Model, form: Format, support: int) -> dict[str, Any]:
    experiment, problem = model.run.experiment, model.built.problem
    ways = trained_ways(experiment)
    x = problem.image or (problem.widths[0],)
    classes = problem.metric == "accuracy"
    return {
        "format": form, "fewstep": version(), "jax": jax.__version__, "method": experiment.method,
        "tasks": public_tasks(experiment.tasks), "inner_steps": model.inner_steps, "seeds": len(model.whole),
        "x": list(x), "outputs": ways or problem.widths[1], "classes": classes,
        "support_rows": max(support, experiment.shots * (ways or 1)), "query_rows": _QUERY,
        "schema": None if problem.schema is None else problem.schema.to_dict(),
        "network": file_name(experiment.network), "hidden": experiment.hidden, "filters": experiment.filters,
        "loss": file_name(experiment.loss),
        "arrays": {path: list(leaf.shape) for path, leaf in flatten(model.metas[0]).items()},
    }  # fmt: skip


def _functions(model: Model, folder: Path, about: dict[str, Any]) -> list[Path]:
    try:
        import flatbuffers  # noqa: F401
        from jax import export
    except ImportError:
        raise FewstepError("StableHLO needs flatbuffers: pip install 'fewstep[export]'. Or use --format npz.") from None
    norms = model.built.problem.norms
    learner = model.built.make(trained_ways(model.run.experiment), "support" if "support" in norms else None)
    metas, steps, classes = list(model.whole.values()) or model.metas, model.inner_steps, about["classes"]

    keys, at = _keys(model), _temperature(model)

    def answer(support: Batch, x: jax.Array, steps: int) -> jax.Array:
        each = [learner.predict(m, learner.adapt(m, key, support, steps), x) for m in metas for key in keys]
        return jnp.stack([jax.nn.softmax(y) if classes else y for y in each]).mean(0)

    def adapt_and_predict(x: Any, y: Any, weight: Any, asked: Any) -> jax.Array:
        made = answer(Batch(x, y, weight), asked, steps)
        return made if at is None else jax.nn.softmax(jnp.log(made) / at(weight.sum()))

    def predict(asked: Any) -> jax.Array:
        y = jnp.zeros(1, jnp.int32) if classes else jnp.zeros((1, about["outputs"]))
        return answer(Batch(jnp.zeros((1, *about["x"])), y, jnp.zeros(1)), asked, 0)

    shape = lambda rows, *rest, kind=jnp.float32: jax.ShapeDtypeStruct((rows, *rest), kind)
    rows, asked = about["support_rows"], shape(about["query_rows"], *about["x"])
    y = shape(rows, kind=jnp.int32) if classes else shape(rows, about["outputs"])
    functions: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "adapt_and_predict": (adapt_and_predict, (shape(rows, *about["x"]), y, shape(rows), asked)),
        "predict": (predict, (asked,)),
    }
    made = []
    for name, (function, shapes) in functions.items():
        path = folder / f"{name}.stablehlo"
        _write(path, bytes(export.export(jax.jit(function), platforms=PLATFORMS)(*shapes).serialize()))
        made.append(path)
    loader = folder / "load.py"
    write_text(loader, (files("fewstep") / "export" / "_loader.py").read_text())
    return [*made, loader]


def _keys(model: Model) -> list[Any]:
    """The keys of the masks, as `adapt` draws them: several samples for a table."""
    key = jax.random.key(0)
    if model.built.problem.schema is None:
        return [key]
    return [jax.random.fold_in(key, number) for number in range(ensemble_of(model).samples)]


def _temperature(model: Model) -> Callable[[jax.Array], jax.Array] | None:
    """The temperature of a table's probabilities after learning from so many rows, as the run is calibrated."""
    known = None if model.built.problem.schema is None else ensemble_of(model).calibration
    if known is None or not known.temperatures:
        return None
    shots = sorted(known.temperatures)
    values = jnp.asarray([known.temperatures[number] for number in shots])
    return lambda count: values[jnp.maximum(jnp.searchsorted(jnp.asarray(shots, float), count, side="right") - 1, 0)]


def _arrays(model: Model, folder: Path, form: Format) -> Path:
    """The meta-parameters of every seed, by path."""
    named = {
        f"seed_{seed}/{path}": np.asarray(leaf)
        for seed, meta in model.whole.items() for path, leaf in flatten(meta).items()
    }  # fmt: skip
    path = folder / ("parameters.npz" if form == "npz" else "parameters.safetensors")
    if form == "npz":
        new = path.with_name(path.name + ".new")
        with writing(path), new.open("wb") as file:
            np.savez(file, **named)  # type: ignore[arg-type]
        new.replace(path)
    else:
        _write(path, safetensors(named))
    return path


def safetensors(named: dict[str, np.ndarray]) -> bytes:
    """Arrays in the safetensors format: the length of a header, the header in JSON, then the bytes of each array."""
    kinds = {
        "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "bool": "BOOL", "uint8": "U8",
        "uint32": "U32", "int8": "I8", "int32": "I32", "int64": "I64",
    }  # fmt: skip
    header, begin = {}, 0
    for name, array in named.items():
        end = begin + array.nbytes
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in named.values())


def _write(path: Path, content: bytes) -> None:
    with writing(path):
        new = path.with_name(path.name + ".new")
        new.write_bytes(content)
        new.replace(path)
