"""The few sizes that programs are compiled for; what is smaller is padded."""

from bisect import bisect_left

TASKS = (1, 4, 16, 64)  # tasks of one compiled call
SAMPLES = (1, 16, 64)
STEPS = (1, 10, 100)  # a task of few steps does not wait for one of many: they go into separate batches


def bucket(size: int, sizes: tuple[int, ...] = ()) -> int:
    """The smallest of the sizes that holds so many; the next power of two if none does."""
    at = bisect_left(sizes, size)
    return sizes[at] if at < len(sizes) else 1 << (size - 1).bit_length()
