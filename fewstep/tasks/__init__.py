"""Task distributions: factories of `Tasks`, by name."""

from collections.abc import Callable

from fewstep._episode import Tasks
from fewstep.data import DATA_SETS
from fewstep.tasks._batch import batch as batch
from fewstep.tasks._classes import distinct as distinct
from fewstep.tasks._curves import fewer_shots as fewer_shots
from fewstep.tasks.encoded import all_encoded as all_encoded
from fewstep.tasks.encoded import encoded as encoded
from fewstep.tasks.files import read_query as read_query
from fewstep.tasks.files import read_support as read_support
from fewstep.tasks.gaussian_process import KERNELS as KERNELS
from fewstep.tasks.gaussian_process import KernelName as KernelName
from fewstep.tasks.gaussian_process import Prior as Prior
from fewstep.tasks.gaussian_process import gaussian_process as gaussian_process
from fewstep.tasks.gaussian_process import posterior as posterior
from fewstep.tasks.gaussian_process import prior_of as prior_of
from fewstep.tasks.images import all_classes as all_classes
from fewstep.tasks.images import images as images
from fewstep.tasks.pictures import read_query_images as read_query_images
from fewstep.tasks.pictures import read_support_images as read_support_images
from fewstep.tasks.polynomial import polynomial as polynomial
from fewstep.tasks.sinusoid import sinusoid as sinusoid

TASKS: dict[str, Callable[..., Tasks]] = {
    "sinusoid": sinusoid, "polynomial": polynomial, "gaussian-process": gaussian_process,
}  # fmt: skip
# Sets of images by the name they have on the command line.
IMAGES = tuple(DATA_SETS)
