"""The image sets, in one table: to add one, write the function that reads its files, and add its line here."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from fewstep._errors import unknown
from fewstep.data._set import Classes, ImageSet
from fewstep.data.cifar import cifar_splits, read_cifar
from fewstep.data.folder import has_classes, imagenet_classes, imagenet_inputs, read_imagenet
from fewstep.data.omniglot import has_omniglot, omniglot_inputs, omniglot_splits, read_omniglot

_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_CIFAR_FILE = "cifar-100-binary.tar.gz"
_BACKGROUND = "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640"
_EVALUATION = "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee"
_CIFAR100 = "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"


class Archive(NamedTuple):
    """A file to download."""

    name: str
    home: str
    sha256: str
    megabytes: int


class Source(NamedTuple):
    """The files of an image set.

    `files` can be downloaded; without any, users bring their own. `paths` are where to look in a folder for data, in
    this order, and `is_at` checks that the set can be read from there. `read(path, size)` reads it; `inputs(path)`
    lists the files and folders that are read, to notice changes. `forms` describes the accepted files.
    """

    name: str
    what: str
    license: str
    read: Callable[[Path, int], ImageSet]
    files: tuple[Archive, ...] = ()
    paths: tuple[str, ...] = ()
    is_at: Callable[[Path], bool] = has_classes
    inputs: Callable[[Path], list[Path]] = lambda path: [path]
    forms: str = ""

    @property
    def used_by(self) -> tuple[str, ...]:
        """The names of the tasks that draw from it."""
        return tuple(name for name, tasks in DATA_SETS.items() if tasks.source == self.name)


class Defaults(NamedTuple):
    """How tasks of a set are usually drawn and learned, by the names of an experiment's options."""

    image_size: int = 32
    rotate: Literal["none", "episode", "classes"] = "none"
    down: Literal["stride", "pool"] = "pool"
    head: Literal["average", "flatten"] = "flatten"
    meta_batch: int = 16
    queries: int = 5
    inner_lr: float = 0.4


class DataSet(NamedTuple):
    """A set of images as tasks draw from it.

    `dark_on_light` images are inverted, so that what is drawn is 1 and the background 0. `own_size` is the edge of the
    original images, where all have the same. `splits` are the named ways to divide its classes, the default first, and
    `train_classes` the number of training classes in each; both are empty where the files decide.
    `classes(path, names, split)` gives the classes of each part. `sample`: some images come with the package.
    """

    name: str
    source: str
    classes: Callable[[Path, tuple[str, ...], str], Classes]
    splits: tuple[str, ...] = ()
    train_classes: tuple[int, ...] = ()
    channels: int = 3
    own_size: int | None = None
    dark_on_light: bool = False
    sample: bool = False
    defaults: Defaults = Defaults()


SOURCES = {
    source.name: source
    for source in (
        Source(
            "omniglot", "1,623 characters of 50 alphabets, each drawn by 20 people", "MIT", read_omniglot,
            (
                Archive("images_background.zip", _OMNIGLOT, _BACKGROUND, 10),
                Archive("images_evaluation.zip", _OMNIGLOT, _EVALUATION, 7),
            ),
            ("omniglot", ""), has_omniglot, omniglot_inputs,
            "images_background.zip and images_evaluation.zip, these two unpacked, or the two as npz files with a "
            "characters.csv",
        ),
        Source(
            "cifar100", "100 classes of 600 photographs, 32 x 32", "none stated; cite Krizhevsky 2009", read_cifar,
            (Archive(_CIFAR_FILE, _CIFAR, _CIFAR100, 169),),
            ("cifar100", f"cifar100/{_CIFAR_FILE}", _CIFAR_FILE, "cifar100.zip"),
            forms=f"{_CIFAR_FILE}, or cifar100.zip or a folder cifar100 with one folder of images per class",
        ),
        Source("miniimagenet", "100 classes of 600 photographs of ImageNet", "ImageNet's terms", read_imagenet,
               paths=("miniimagenet",), inputs=imagenet_inputs),
        Source("tieredimagenet", "608 classes of ImageNet", "ImageNet's terms", read_imagenet,
               paths=("tieredimagenet",), inputs=imagenet_inputs),
    )
}  # fmt: skip

DATA_SETS = {
    tasks.name: tasks
    for tasks in (
        DataSet(
            "omniglot", "omniglot", lambda path, names, split: omniglot_splits(names, split),
            splits=("vinyals", "maml"), train_classes=(1028, 1100), channels=1, own_size=105, dark_on_light=True,
            sample=True, defaults=Defaults(28, "episode", "stride", "average", meta_batch=32, queries=1, inner_lr=2.0),
        ),
        DataSet("cifar-fs", "cifar100", lambda *_: cifar_splits("cifar-fs"), train_classes=(64,), own_size=32),
        DataSet("fc100", "cifar100", lambda *_: cifar_splits("fc100"), train_classes=(60,), own_size=32),
        DataSet("miniimagenet", "miniimagenet", imagenet_classes, defaults=Defaults(84)),
        DataSet("tieredimagenet", "tieredimagenet", imagenet_classes, defaults=Defaults(84)),
    )
}  # fmt: skip

# A user's own folder: `load` reads and splits it, as its options say.
_FOLDER = DataSet("folder", "", lambda *_: {})


def info(tasks: str) -> DataSet:
    """What there is to know of a set of images, by the name of its tasks: `omniglot`, `folder:PATH` ...

    Raises `FewstepError` for an unknown one.
    """
    if tasks.startswith("folder:"):
        return _FOLDER
    if tasks not in DATA_SETS:
        raise unknown("image set", tasks, [*DATA_SETS, "folder:PATH"])
    return DATA_SETS[tasks]


def source(name: str) -> Source:
    """The files of a set, by its own name or that of its tasks. Raises `FewstepError` for an unknown one."""
    own = DATA_SETS[name].source if name in DATA_SETS else name
    if own not in SOURCES:
        raise unknown("set of images", name, [*SOURCES, *DATA_SETS])
    return SOURCES[own]
