"""The weights and hyper-parameters of a BERT in the names of the transformers library, as ours."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._bert import ACTIVATIONS, Sizes
from fewstep.files import read_json

Weights = Mapping[str, np.ndarray]
_DENSE = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "mix": "attention.output.dense", "inner": "intermediate.dense", "outer": "output.dense",
}  # fmt: skip
_NORMS = {"attention_norm": "attention.output.LayerNorm", "outer_norm": "output.LayerNorm"}
WORDS = "embeddings.word_embeddings.weight"


def sizes_of(folder: Path) -> Sizes:
    """The hyper-parameters in the config.json beside the weights."""
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise FewstepError(f"There is no readable {path}. Put the model's config.json beside its weights.")
    try:
        sizes = Sizes(
            width=int(config["hidden_size"]), inner=int(config["intermediate_size"]),
            heads=int(config["num_attention_heads"]), layers=int(config["num_hidden_layers"]),
            positions=int(config["max_position_embeddings"]), vocabulary=int(config["vocab_size"]),
            segments=int(config.get("type_vocab_size", 2)), epsilon=float(config["layer_norm_eps"]),
            activation=str(config["hidden_act"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise FewstepError(f"{path} lacks {error}, or it is not a number. Take the model's own config.json.") from None
    usual = config.get("model_type") == "bert" and config.get("position_embedding_type", "absolute") == "absolute"
    if not usual or sizes.activation not in ACTIVATIONS:
        raise FewstepError(
            f"{path} describes a {config.get('model_type')} with {sizes.activation} and "
            f"{config.get('position_embedding_type', 'absolute')} positions; only bert with absolute positions and "
            f"{', '.join(ACTIVATIONS)} is read. Export the model to ONNX and use onnx:MODEL.onnx."
        )
    return sizes


def convert(weights: Weights, sizes: Sizes, source: str) -> dict[str, dict[str, np.ndarray]]:
    """The parameters. Raises `FewstepError` for an array that is missing or has another shape than config.json says."""
    prefix = next((name.removesuffix(WORDS) for name in weights if name.endswith(WORDS)), "")

    def get(name: str, *shape: int) -> np.ndarray:
        array = weights.get(prefix + name)
        if array is None or array.shape != shape:
            here = "is missing" if array is None else f"has shape {array.shape}"
            raise FewstepError(
                f"In {source} the array {name} {here}, and config.json beside it says {shape}. They are of different "
                "models: take both from the same one."
            )
        return array.astype(np.float32)

    def dense(name: str, inputs: int, outputs: int) -> dict[str, np.ndarray]:
        return {"kernel": get(f"{name}.weight", outputs, inputs).T.copy(), "bias": get(f"{name}.bias", outputs)}

    def norm(name: str) -> dict[str, np.ndarray]:
        return {"scale": get(f"{name}.weight", sizes.width), "shift": get(f"{name}.bias", sizes.width)}

    params = {"embeddings": _embeddings(get, sizes), "embeddings_norm": norm("embeddings.LayerNorm")}
    shapes = {"inner": (sizes.width, sizes.inner), "outer": (sizes.inner, sizes.width)}
    for number in range(sizes.layers):
        under = f"encoder.layer.{number}"
        for ours, theirs in _DENSE.items():
            params[f"layer_{number}_{ours}"] = dense(f"{under}.{theirs}", *shapes.get(ours, (sizes.width,) * 2))
        params |= {f"layer_{number}_{ours}": norm(f"{under}.{theirs}") for ours, theirs in _NORMS.items()}
    return params


def _embeddings(get: Callable[..., np.ndarray], sizes: Sizes) -> dict[str, np.ndarray]:
    return {
        "words": get(WORDS, sizes.vocabulary, sizes.width),
        "positions": get("embeddings.position_embeddings.weight", sizes.positions, sizes.width),
        "segment": get("embeddings.token_type_embeddings.weight", sizes.segments, sizes.width)[0],
    }
