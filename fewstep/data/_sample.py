"""A few images of a set that come with the package, for those who do not have the set itself."""

from importlib.resources import as_file, files

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data._catalog import DataSet
from fewstep.data._decode import resize
from fewstep.data._set import ImageSet, make_set


def read_sample(tasks: DataSet, size: int) -> ImageSet:
    """The package's own images of a set, each `size` pixels high and wide: of Omniglot, 20 characters that are test
    characters in all of its splits. Raises `FewstepError` for a set without any."""
    if not tasks.sample:
        raise FewstepError(f"No images of {tasks.name} come with fewstep. Load another split than 'sample'.")
    path = files("fewstep.data") / f"{tasks.name}-sample.npz"
    with as_file(path) as file, np.load(file, allow_pickle=False) as arrays:
        names, edge = arrays["names"].tolist(), int(arrays["edge"])
        ink = np.unpackbits(arrays["ink"], axis=-1, count=edge).astype(bool)
    drawings = np.where(ink, 0, 255).astype(np.uint8)
    return make_set({name: resize(some, size) for name, some in zip(names, drawings, strict=True)})
