"""Image sets by the name of their tasks, and the classes of each split."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError, unknown
from fewstep.data import _places, _sources
from fewstep.data._prepared import prepared
from fewstep.data._sample import read_sample
from fewstep.data._set import SPLITS, ImageSet
from fewstep.data.cifar import cifar_splits, read_cifar
from fewstep.data.folder import find_list, folder_classes, listed_classes, named_classes, read_folder, read_listed
from fewstep.data.omniglot import OMNIGLOT_SIZES, omniglot_splits, read_omniglot

Classes = dict[str, tuple[str, ...]]


def load(
    tasks: str,
    split: str = "train",
    *,
    size: int,
    named: str | None = None,
    color: str = "rgb",
    classes: Classes | None = None,
    skip_bad: bool = False,
) -> ImageSet:
    """The images of a split of some tasks, each `size` pixels high and wide.

    **Arguments:** `tasks` is `omniglot`, `cifar-fs`, `fc100`, `miniimagenet`, `tieredimagenet` or `folder:PATH`;
    `split` is `train`, `validation`, `test`, `all`, or `sample`, a few test images that come with the package
    (Omniglot); `named` a split by name (Omniglot: `vinyals` or `maml`). For folders are `color`, the `classes` of each
    split (`pin` draws them; without, as by seed 0), and `skip_bad`, which leaves out images that are damaged.

    **Returns:** an `ImageSet`. Sets that are not on this machine are downloaded. Raises `FewstepError`, and
    `UnreadableImage` for an image that is damaged.
    """
    if split not in (*SPLITS, "all", "sample"):
        raise unknown("split", split, (*SPLITS, "all", "sample"))
    if split == "sample":
        return read_sample(tasks, size)
    places = str(_places.folders()), str(_places.given(tasks))
    whole, parts = _whole(tasks, size, named, color, skip_bad, *places)
    if split == "all":
        return whole
    parts = classes or parts or folder_classes(_folder(tasks), 0, 2)
    return whole.only(parts[split])


def count(tasks: str, named: str | None = None, classes: Classes | None = None) -> int:
    """The number of training classes, without reading images where the split is fixed."""
    if classes:
        return len(classes["train"])
    if tasks == "omniglot" and (named or "vinyals") in OMNIGLOT_SIZES:
        return OMNIGLOT_SIZES[named or "vinyals"]
    if tasks in ("cifar-fs", "fc100"):
        return len(cifar_splits(tasks)["train"])
    return len(load(tasks, size=8, named=named).names)


def pin(tasks: str, seed: int, ways: int) -> Classes | None:
    """The classes of each split of a folder, to be kept with a run; nothing for sets whose splits are fixed."""
    return folder_classes(_folder(tasks), seed, ways) if tasks.startswith("folder:") else None


@lru_cache(maxsize=2)
def _whole(
    tasks: str, size: int, named: str | None, color: str, skip_bad: bool, *places: str
) -> tuple[ImageSet, Classes]:
    """All images, prepared once for a process and once for the disk, and the classes of each split."""
    how: dict[str, Any] = {"size": size, "color": color}
    if tasks.startswith("folder:"):
        path = _folder(tasks)
        if not path.exists():
            raise FewstepError(f"There is no {path}. Give a folder or a zip with one folder of images a class.")
        how |= {"skip_bad": True} if skip_bad else {}
        return prepared("folder", [path], how, lambda: read_folder(path, size, color, skip_bad=skip_bad)), {}
    path = _sources.need(tasks)
    if tasks == "omniglot":
        files = sorted(file for file in path.iterdir() if file.name.startswith(("images_", "characters")))
        whole = prepared("omniglot", files, how, lambda: read_omniglot(path, size))
        return whole, omniglot_splits(whole.names, named or "vinyals")
    if named is not None:
        raise FewstepError(f"`split` does not apply: {tasks} has one split only. Leave it out.")
    if tasks in ("cifar-fs", "fc100"):
        return prepared("cifar100", [path], how, lambda: read_cifar(path, size)), cifar_splits(tasks)
    return _imagenet(path, size, how)


def _imagenet(path: Path, size: int, how: dict[str, Any]) -> tuple[ImageSet, Classes]:
    """A user's part of ImageNet: folders train, val and test, or lists of files beside the images."""
    if (path / "train").is_dir():
        whole = prepared(path.name, [path], how, lambda: read_folder(path, size, "rgb"))
        return whole, named_classes(path, whole.names)
    lists = [find_list(path, part) for part in SPLITS]
    return prepared(path.name, [path, *lists], how, lambda: read_listed(path, size)), listed_classes(path)


def _folder(tasks: str) -> Path:
    return Path(tasks.removeprefix("folder:")).expanduser()
