"""A trained run out again: compiled functions or parameters in a folder that needs fewstep no more, with a card."""

import importlib.metadata
import json
import struct
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep.export.card import card
from fewstep.files import JSON, new_file, write_json, write_text, writing
from fewstep.models import Model, answer, arrays_of, learn
from fewstep.problems import ScoreRow

Format = Literal["stablehlo", "npz", "safetensors"]
PLATFORMS = ("cpu", "cuda", "tpu")
_SUPPORT, _QUERY = 64, 64


def export_model(
    model: Model, folder: Path, form: Format, scores: list[ScoreRow], *, support: int = _SUPPORT
) -> list[Path]:
    """Writes a model into a folder: `adapt_and_predict` and `predict` as StableHLO, or its arrays; beside them a
    description for programs, a card for people, and for StableHLO a loader that needs jax and flatbuffers only.

    **Arguments:** `scores` stand in the card; `support` is the largest number of rows that the compiled function can
    learn from.
    """
    if folder.is_file():
        raise FewstepError(f"{folder} is a file. Choose another folder with `out`.")
    _check_base(model, form)
    about = _describe(model, form, support)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = _functions(model, folder, about) if form == "stablehlo" else [_arrays(model, folder, form)]
    write_json(folder / "description.json", about)
    write_text(folder / "README.md", card(model, scores, about, [path.name for path in paths]))
    return [*paths, folder / "description.json", folder / "README.md"]


def _check_base(model: Model, form: Format) -> None:
    """Refuses a model whose base would be left behind."""
    base = model.problem.base
    if base is not None and not (base.portable and form == "stablehlo"):
        what = "is an estimator of scikit-learn, which cannot be compiled" if not base.portable else "is no parameter"
        raise FewstepError(
            f"The model's base {what}, so the export would lack it. Use `format='stablehlo'` with `base='trees'`, or "
            "train without a base."
        )


def _describe(model: Model, form: Format, support: int) -> dict[str, JSON]:
    experiment, problem = model.experiment, model.problem
    calibration = None if model.calibration is None else model.calibration.to_dict()
    return {
        "format": form, "fewstep": importlib.metadata.version("fewstep"), "jax": jax.__version__,
        "method": experiment.public_method, "tasks": experiment.public_tasks, "inner_steps": model.steps,
        "seeds": len(model.finite), "x": list(problem.x), "outputs": problem.outputs, "classes": problem.classes,
        "support_rows": max(support, experiment.shots * (problem.ways or 1)), "query_rows": _QUERY,
        "schema": model.kind.describe(problem).get("schema"), "calibration": calibration,
        "settings": experiment.differing(),
        "arrays": {path: list(array.shape) for path, array in arrays_of(model.meta()).items()},
    }  # fmt: skip


def _functions(model: Model, folder: Path, about: dict[str, JSON]) -> list[Path]:
    """Mean and spread of the members, before and after adapting, as compiled functions."""
    try:
        import flatbuffers  # noqa: F401
        from jax import export
    except ImportError:
        fix = "pip install 'fewstep[export]'. Or use `format='npz'`."
        raise FewstepError(f"StableHLO needs flatbuffers: {fix}") from None
    metas = jax.tree.map(np.asarray, model.stacked)  # as constants of the programs
    y_shape = () if about["classes"] else (about["outputs"],)
    y_type = jnp.int32 if about["classes"] else jnp.float32

    def reply(support: Batch, x: Array, steps: int) -> tuple[Array, Array]:
        adapted, _ = learn(model, jax.random.key(0), support, metas=metas, steps=steps)
        members = answer(model, adapted, x, metas=metas)
        return members.mean, members.spread

    def adapt_and_predict(x: Array, y: Array, weight: Array, query: Array) -> tuple[Array, Array]:
        return reply(Batch(x, y, weight), query, model.steps)

    def predict(query: Array) -> tuple[Array, Array]:
        nothing = Batch(jnp.zeros((1, *about["x"])), jnp.zeros((1, *y_shape), y_type), jnp.zeros(1))
        return reply(nothing, query, 0)

    shape = lambda rows, *rest, kind=jnp.float32: jax.ShapeDtypeStruct((rows, *rest), kind)
    rows, query = about["support_rows"], shape(about["query_rows"], *about["x"])
    functions: dict[str, tuple[Callable[..., tuple[Array, Array]], tuple[jax.ShapeDtypeStruct, ...]]] = {
        "adapt_and_predict": (
            adapt_and_predict, (shape(rows, *about["x"]), shape(rows, *y_shape, kind=y_type), shape(rows), query)
        ),
        "predict": (predict, (query,)),
    }  # fmt: skip
    paths = []
    for name, (function, shapes) in functions.items():
        path = folder / f"{name}.stablehlo"
        _write(path, bytes(export.export(jax.jit(function), platforms=PLATFORMS)(*shapes).serialize()))
        paths.append(path)
    write_text(folder / "load.py", (files("fewstep") / "export" / "_loader.py").read_text())
    return [*paths, folder / "load.py"]


def _arrays(model: Model, folder: Path, form: Format) -> Path:
    """The meta-parameters of every seed, by path."""
    arrays = {
        f"seed_{seed}/{path}": array for seed, meta in model.finite.items() for path, array in arrays_of(meta).items()
    }
    path = folder / f"parameters.{form}"
    if form == "npz":
        with new_file(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    else:
        _write(path, safetensors(arrays))
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
    with new_file(path) as file:
        file.write(content)
