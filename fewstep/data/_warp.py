"""Images sheared and scaled about their middle, to test a model on images unlike those of its training."""

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data._decode import shrink
from fewstep.data._set import ImageSet


def warp(of: ImageSet, size: int, *, shear: float = 0.0, zoom: float = 1.0) -> ImageSet:
    """The set with every image sheared and scaled, then brought to `size` pixels.

    **Arguments:** a `shear` of 1 moves the upper edge by half a height to one side, the lower to the other; a `zoom`
    below 1 makes what is drawn smaller. Pixels from outside the image are white.
    """
    if not 0 < zoom < np.inf or not np.isfinite(shear):
        raise FewstepError(f"shear is {shear} and zoom is {zoom}. Both must be finite, and zoom above 0.")
    high, wide, channels = of.shape
    middle_x, middle_y = (wide - 1) / 2, (high - 1) / 2
    # where a pixel (x, y) of the new image comes from: (x - mx) / zoom + shear * (y - my) / zoom + mx, and so on
    across, along = 1 / zoom, shear / zoom
    matrix = (across, along, middle_x - across * middle_x - along * middle_y, 0.0, across, middle_y * (1 - across))
    return of._replace(images=np.stack([_transform(image, matrix, size, channels) for image in of.images]))


def _transform(pixels: np.ndarray, matrix: tuple[float, ...], size: int, channels: int) -> np.ndarray:
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    white = 255 if channels == 1 else (255,) * channels
    image = image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=white)
    return shrink(image, size)
