"""Image sets by the name of their tasks, and the classes of each split."""

from functools import lru_cache
from pathlib import Path

from fewstep._errors import FewstepError, unknown
from fewstep.data import _places, _sources
from fewstep.data._catalog import info, source
from fewstep.data._prepared import prepare
from fewstep.data._sample import read_sample
from fewstep.data._set import SPLITS, Classes, ImageSet
from fewstep.data.folder import folder_classes, read_folder


def load(
    tasks: str,
    split: str = "train",
    *,
    size: int,
    partition: str | None = None,
    color: str = "rgb",
    classes: Classes | None = None,
    skip_bad: bool = False,
) -> ImageSet:
    """The images of a split of some tasks, each `size` pixels high and wide.

    **Arguments:** `tasks` is one of `DATA_SETS`, such as `omniglot`, or `folder:PATH`; `split` is `train`,
    `validation`, `test`, `all`, or `sample`, a few test images that come with the package (Omniglot); `partition` is a
    split by name (Omniglot: `vinyals` or `maml`). For folders only: `color`; the `classes` of each split (`pin` draws
    them; the default is seed 0); and `skip_bad`, which leaves out damaged images.

    **Returns:** an `ImageSet`. Sets that are not on this machine are downloaded. Raises `FewstepError`, and
    `UnreadableImage` for a damaged image.
    """
    if split not in (*SPLITS, "all", "sample"):
        raise unknown("split", split, (*SPLITS, "all", "sample"))
    if split == "sample":
        return read_sample(info(tasks), size)
    places = str(_places.folders()), str(_places.given(tasks))
    images, parts = _load_all(tasks, size, partition, color, skip_bad, *places)
    if split == "all":
        return images
    return images.only((classes or parts or folder_classes(_folder(tasks), 0, 2))[split])


def count(tasks: str, partition: str | None = None, classes: Classes | None = None) -> int:
    """The number of training classes, without reading images where the split is fixed."""
    if classes:
        return len(classes["train"])
    record = info(tasks)
    if record.train_classes and (partition is None or partition in record.splits):
        return record.train_classes[record.splits.index(partition) if partition else 0]
    return len(load(tasks, size=8, partition=partition).names)


def pin(tasks: str, seed: int, ways: int) -> Classes | None:
    """The classes of each split of a folder, to be stored with a run; `None` for sets whose splits are fixed."""
    return folder_classes(_folder(tasks), seed, ways) if tasks.startswith("folder:") else None


@lru_cache(maxsize=2)
def _load_all(
    tasks: str, size: int, partition: str | None, color: str, skip_bad: bool, *places: str
) -> tuple[ImageSet, Classes]:
    """All images, prepared once for a process and once for the disk, and the classes of each split."""
    record = info(tasks)
    settings: dict[str, int | str] = {"size": size, "color": color}
    if not record.source:
        path = _folder(tasks)
        if not path.exists():
            raise FewstepError(f"There is no {path}. Give a folder or a zip with one folder of images per class.")
        settings |= {"skip_bad": True} if skip_bad else {}
        return prepare("folder", [path], settings, lambda: read_folder(path, size, color, skip_bad=skip_bad)), {}
    path, own = _sources.need(tasks), source(tasks)
    if partition is not None and not record.splits:
        raise FewstepError(f"`split` does not apply: {tasks} has one split only. Leave it out.")
    images = prepare(own.name, own.inputs(path), settings, lambda: own.read(path, size))
    return images, record.classes(path, images.names, partition or next(iter(record.splits), ""))


def _folder(tasks: str) -> Path:
    return Path(tasks.removeprefix("folder:")).expanduser()
