"""Task augmentation: from one task another one, changed at random. Each is a factory of an `Augment`, by name."""

from collections.abc import Callable

from fewstep.augmentations._images import turned as turned
from fewstep.augmentations._learned import learned as learned
from fewstep.augmentations._tasks import Augment as Augment
from fewstep.augmentations._tasks import augmented as augmented
from fewstep.augmentations.cutmix import cutmix as cutmix
from fewstep.augmentations.erase import erase as erase
from fewstep.augmentations.label_shift import label_shift as label_shift
from fewstep.augmentations.turn import turn as turn

AUGMENTATIONS: dict[str, Callable[..., Augment]] = {
    "label_shift": label_shift, "cutmix": cutmix, "erase": erase, "turn": turn,
}  # fmt: skip
