"""Cells of a table as they stand in messages."""

import numpy as np


def shown(cell: object) -> str:
    """A number with six figures, a date without a time of midnight, text as it is."""
    if isinstance(cell, np.datetime64):
        return str(cell.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
    return f"{cell:.6g}" if isinstance(cell, int | float | np.number) else str(cell)
