"""A few images of a set that come with the package, for those who do not have the set itself."""

from importlib.resources import as_file, files

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data._decode import shrink_pixels
from fewstep.data._set import ImageSet, make_set

SAMPLES = ("omniglot",)


def read_sample(tasks: str, size: int) -> ImageSet:
    """The images of the package for some tasks, each `size` pixels high and wide: of Omniglot, 20 characters that are
    test characters in all of its splits. Raises `FewstepError` for tasks without any."""
    if tasks not in SAMPLES:
        raise FewstepError(f"No images of {tasks} come with fewstep, only of {', '.join(SAMPLES)}.")
    with as_file(files("fewstep.data") / f"{tasks}-sample.npz") as path, np.load(path, allow_pickle=False) as packed:
        names, edge = packed["names"].tolist(), int(packed["edge"])
        ink = np.unpackbits(packed["ink"], axis=-1, count=edge).astype(bool)
    paper = np.where(ink, 0, 255).astype(np.uint8)
    drawn = (np.stack([shrink_pixels(drawing, size) for drawing in drawings]) for drawings in paper)
    return make_set(dict(zip(names, drawn, strict=True)))
