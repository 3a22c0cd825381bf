"""Makes a table to try fewstep on: the temperature over a day at forty sensors, a few hours each.

python examples/sensors.py        # writes sensors.csv, new.csv and ask.csv
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def curve(random: np.random.Generator) -> tuple[float, float, float]:
    """A sensor's mean temperature, how far the day moves it, and its warmest hour."""
    return random.normal(12, 4), random.uniform(2, 8), random.normal(15, 1)


def celsius(of: tuple[float, float, float], hour: np.ndarray) -> np.ndarray:
    """The temperature at an hour of the day."""
    middle, range_, warmest = of
    return middle + range_ * np.cos(2 * np.pi * (hour - warmest) / 24)


def main(folder: Path = Path(), seed: int = 0) -> None:
    """Writes the table of the known sensors, some rows of a new one, and the hours to ask it for."""
    random = np.random.default_rng(seed)
    rows = []
    for sensor in range(40):
        of, hours = curve(random), np.sort(random.uniform(0, 24, random.integers(12, 25)))
        measured = celsius(of, hours) + random.normal(0, 0.2, len(hours))
        rows += [[f"sensor {sensor:02d}", f"{h:.2f}", f"{c:.2f}"] for h, c in zip(hours, measured, strict=True)]
    write(folder / "sensors.csv", ["sensor", "hour", "celsius"], rows)
    of, hours = curve(random), np.asarray([2.0, 7.0, 11.0, 16.0, 21.0])
    measured = celsius(of, hours) + random.normal(0, 0.2, len(hours))
    write(folder / "new.csv", ["hour", "celsius"], [[h, f"{c:.2f}"] for h, c in zip(hours, measured, strict=True)])
    write(folder / "ask.csv", ["hour"], [[hour] for hour in range(24)])


def write(path: Path, head: list[str], rows: Sequence[Sequence[object]]) -> None:
    """Writes a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    print(f"{path}: {len(rows)} rows")


if __name__ == "__main__":
    main()
