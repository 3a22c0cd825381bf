"""Texts, images and encoders of a few lines, for the tests of what is learned behind an encoder."""

import csv
import json
from pathlib import Path

import numpy as np
from helpers import bars

ENCODERS = '''
import numpy as np

def words(items):
    """Which of a few letters a text has."""
    return np.asarray([[item.count(letter) for letter in "abcdefghijklmnop"] for item in items], np.float32)

words.modality = "text"

def colors(items):
    return np.asarray([np.asarray(item, np.float32)[:: len(item) // 4, :: len(item) // 4, 0].ravel() for item in items])

colors.modality = "image"
'''
SMALL = ("--ways", 2, "--queries", 2, "--steps", 3, "--validation-tasks", 4, "--no-report")


def texts_of(classes: int, each: int = 8) -> list[tuple[str, str]]:
    """Texts with their labels: the first letter of the alphabet many times for the first class, and so on."""
    random = np.random.default_rng(0)
    return [("abcdefghijklmnop"[n] * int(random.integers(3, 9)) + " bad dog" * (k % 3), f"class {n}")
            for n in range(classes) for k in range(each)]  # fmt: skip


def write_files(folder: Path) -> Path:
    """A folder with two encoders, a CSV of 16 classes of texts, and a folder of 15 classes of images."""
    from PIL import Image

    (folder / "own.py").write_text(ENCODERS)
    rows = texts_of(16)
    write_csv(folder / "texts.csv", ("text", "label"), rows)
    write_csv(folder / "support.csv", ("text", "label"), [rows[8 * n + k] for n in (1, 5, 9) for k in range(2)])
    write_csv(folder / "query.csv", ("text",), [(rows[8 * n + 5][0],) for n in (9, 1, 5)])
    for number in range(15):
        for turn in range(6):
            path = folder / "photos" / f"class {number}" / f"{turn}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(bars(number, turn)).save(path)
    return folder


def write_csv(path: Path, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def write_bert(folder: Path) -> Path:
    """A BERT of two layers with random weights, in the files that models come in."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    random = np.random.default_rng(0)
    words = ["[UNK]", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "bert", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
        "num_hidden_layers": 2, "max_position_embeddings": 32, "vocab_size": len(words), "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {
        "embeddings.word_embeddings.weight": (27, 8), "embeddings.position_embeddings.weight": (32, 8),
        "embeddings.token_type_embeddings.weight": (2, 8), "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
    }  # fmt: skip
    for number in range(2):
        under = f"encoder.layer.{number}."
        dense = {f"attention.self.{kind}": (8, 8) for kind in ("query", "key", "value")}
        dense |= {"attention.output.dense": (8, 8), "intermediate.dense": (16, 8), "output.dense": (8, 16)}
        for name, shape in dense.items():
            shapes |= {f"{under}{name}.weight": shape, f"{under}{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{under}{name}.weight": (8,), f"{under}{name}.bias": (8,)}
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(arrays, folder / "model.safetensors")
    return folder
