"""The fields of a request to the service as arrays; whatever does not fit is refused with the reason and a code."""

import numpy as np

from fewstep._errors import FewstepError
from fewstep.problems._kind import Fields, Part


def check_fields(fields: Fields, part: Part, *names: str, either: bool = False) -> None:
    """Refuses fields other than these; of the first two, both or `either` may be sent."""
    for field in fields:
        if field not in names:
            first, *rest = (f'"{name}"' for name in names)
            fix = " and ".join([f"{first} or {rest[0]}", *rest[1:]] if either else [first, *rest])
            message = f'"{field}" in the {part} does not apply to this model. Send {fix}.'
            raise FewstepError(message, code="does_not_apply")


def number_rows(fields: Fields, part: Part, field: str, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of numbers of a shape; a row of one number may be sent as that number."""
    array = number_array(fields, part, field)
    array = array[:, None] if array.ndim == 1 and shape == (1,) else array
    if array.shape[1:] != shape:
        takes = f"{shape[0]} numbers per row" if len(shape) == 1 else f"rows of shape {shape}"
        fact = f"{part}.{field} has rows of shape {array.shape[1:]}, but the model takes {takes}."
        raise FewstepError(fact, code="wrong_shape")
    return array


def number_array(fields: Fields, part: Part, field: str) -> np.ndarray:
    """Numbers as an array with at least one row."""
    values, name = fields.get(field), f"{part}.{field}"
    if values is None:
        raise FewstepError(f'The {part} has no "{field}". Send one row for each example.', code=f"no_{field}")
    if not values:
        raise FewstepError(f"{name} has no rows. Send at least one.", code="no_rows")
    if any(isinstance(value, str) for value in values):
        raise FewstepError(f"{name} has texts, but the model takes numbers. Send numbers.", code="not_numbers")
    try:
        array = np.array(values, np.float64)
    except ValueError:
        raise FewstepError(f"{name} has rows of unequal length. Make them equal.", code="ragged") from None
    if array.size == 0:
        raise FewstepError(f"{name} has rows without a number. Each needs at least one.", code="wrong_shape")
    return array
