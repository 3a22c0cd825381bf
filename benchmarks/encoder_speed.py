"""How fast photographs become features, and how long a new user waits, from an empty cache.

python benchmarks/encoder_speed.py

It needs the weights of efficientnet-lite0 and nothing else: photographs are noise of 300 x 200 pixels, which is
decoded, resized and encoded as any other. Seconds are those on the clock, core seconds those of all cores together.
`encode` is `encode_all` on photographs in memory at 128 pixels, compiling included; `adapt` and `train` are commands in
processes of their own on a folder of JPEG files of 20 classes, each with an empty cache; `again` is `adapt` with
features kept.
"""

import dataclasses
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import tyro
from PIL import Image

from fewstep.encoders import encode_all, find_encoder
from fewstep.files import write_json
from fewstep.machine.provenance import commit

OUT = Path(__file__).parent / "results" / "encoder-speed.json"
ENCODER, HIGH, WIDE, CLASSES, QUERIES = "efficientnet-lite0", 200, 300, 20, 40
GOALS = {"encode": 300, "adapt": 120}  # seconds for 10,000 images and for 500 photographs, on two quiet cores


@dataclasses.dataclass(frozen=True)
class Options:
    """Speed of a pretrained encoder."""

    images: int = 10_000
    """Images that are encoded."""
    photographs: int = 500
    """Photographs in the folder of the commands."""
    out: Path = OUT
    """The file of the result."""


class Views(Sequence[np.ndarray]):
    """As many different photographs as are wanted, cut from one large one."""

    def __init__(self, count: int) -> None:
        self.number, self.wide = count, 200
        shape = (HIGH + count // self.wide + 1, WIDE + self.wide, 3)
        self.whole = np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, number: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[np.ndarray]: ...
    def __getitem__(self, number: int | slice) -> np.ndarray | Sequence[np.ndarray]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(self.number))]
        if not 0 <= number < self.number:
            raise IndexError(number)
        top, left = divmod(number, self.wide)
        return self.whole[top : top + HIGH, left : left + WIDE]


def encoded(count: int) -> dict[str, float]:
    """The time of so many images."""
    images, begin, core = Views(count), time.perf_counter(), time.process_time()
    encode_all(find_encoder(ENCODER), images, cache=False)
    seconds, cores = time.perf_counter() - begin, time.process_time() - core
    return _times(seconds, cores) | {"images_per_second": round(count / seconds, 1)}


def write_photographs(folder: Path, count: int) -> None:
    """A folder of photographs with one folder per class, and one of unknown photographs."""
    images = Views(count + QUERIES)
    for number in range(count + QUERIES):
        home = folder / "unknown" if number >= count else folder / "photos" / f"class {number % CLASSES}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[number]).save(home / f"{number}.jpg", quality=90)


def timed(folder: Path, cache: str, *words: str) -> dict[str, float]:
    """The time of a command, in a process of its own, with a cache of its own."""
    environment = os.environ | {"FEWSTEP_CACHE": str(folder / cache)}
    begin, core = time.perf_counter(), _of_children()
    command = [sys.executable, "-m", "fewstep", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} fails: {done.stderr}")
    return _times(time.perf_counter() - begin, _of_children() - core)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _times(seconds: float, cores: float) -> dict[str, float]:
    return {"seconds": round(seconds, 1), "core_seconds": round(cores, 1)}


def main(options: Options) -> None:
    """Measures, prints and keeps the times."""
    adapt = ("adapt", ENCODER, "--support", "photos", "--query", "unknown")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_photographs(folder, options.photographs)
        rows = {
            "adapt": timed(folder, "one", *adapt),
            "again": timed(folder, "one", *adapt),
            "train": timed(folder, "two", "train", "metric", "folder:photos", "--encoder", ENCODER, "--run", "run"),
            "encode": encoded(options.images),
        }
    of = {"images": options.images, "photographs": options.photographs}
    usual = of == {"images": Options.images, "photographs": Options.photographs}
    result = {"name": "encoder-speed", "command": "python benchmarks/encoder_speed.py", **of, "cores": os.cpu_count(),
              "rows": rows, "goal_seconds": GOALS if usual else None, "commit": commit()}  # fmt: skip
    write_json(options.out, result)
    print(options.out.read_text(), end="")


if __name__ == "__main__":
    main(tyro.cli(Options))
