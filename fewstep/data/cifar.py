"""CIFAR-100 (Krizhevsky, 2009), and the two ways its classes are split for few-shot learning: CIFAR-FS and FC100."""

import tarfile
import zlib
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._decode import resize
from fewstep.data._set import Classes, ImageSet, make_set, splits
from fewstep.data._tree import open_tree, read_tree

_RECORD = 2 + 3 * 32 * 32  # the numbers of the superclass and the class, then red, green and blue
_MAX_BYTES = 200_000_000


def read_cifar(path: Path, size: int) -> ImageSet:
    """The set from the binary archive of its home, or from a folder or zip with one folder of images per class."""
    if path.name.endswith((".tar.gz", ".tgz")):
        classes = _from_archive(path)
        if size != 32:
            classes = {name: resize(images, size) for name, images in classes.items()}
    else:
        with open_tree(path) as tree:
            classes = read_tree(tree, size, "RGB", f"reading {path.name}")
    names = {name for group in splits()["cifar100"].values() for name in group}
    if classes.keys() != names:
        raise FewstepError(f"{path} holds {len(classes.keys() & names)} of the 100 classes of CIFAR-100. Get it again.")
    return make_set(dict(sorted(classes.items())))


def cifar_splits(tasks: str) -> Classes:
    """The classes of train, validation and test: of CIFAR-FS 64/16/20, of FC100 whole superclasses, 60/20/20.

    Sources: Bertinetto et al., 2019, and Oreshkin, Rodriguez & Lacoste, 2018; lists as in pytorch-meta.
    """
    parts, groups = splits()[tasks], splits()["cifar100"]
    if tasks == "fc100":
        return {part: tuple(name for group in some for name in groups[group]) for part, some in parts.items()}
    return {part: tuple(names) for part, names in parts.items()}


def _from_archive(path: Path) -> dict[str, np.ndarray]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            names = _member(archive, "fine_label_names.txt").decode().split()
            records = [np.frombuffer(_member(archive, f"{part}.bin"), np.uint8) for part in ("train", "test")]
        table = np.concatenate(records).reshape(-1, _RECORD)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, FewstepError):
            raise
        raise FewstepError(
            f"{path} is damaged: {error}. Remove it, and get it again: fewstep data get cifar100"
        ) from None
    _places.progress(f"reading {path.name}", 1, 1, "files")
    pixels = table[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return {name: pixels[table[:, 1] == number] for number, name in enumerate(names)}


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """A file of the archive, read and never unpacked to disk."""
    for entry in archive:
        if entry.isfile() and Path(entry.name).name == name:
            if entry.size > _MAX_BYTES:
                raise FewstepError(f"{archive.name!s} is not CIFAR-100: {name} is larger than it can be.")
            file = archive.extractfile(entry)
            return file.read() if file else b""
    raise ValueError(f"it has no {name}")
