"""Takes a few test characters of Omniglot into the package, for the playground of those who do not have the set.

FEWSTEP_DATA=FOLDER python benchmarks/ship_characters.py

Omniglot is by Brenden Lake (https://github.com/brendenlake/omniglot), under the MIT license; its text lies beside the
file.
"""

from pathlib import Path

import numpy as np

import fewstep
from fewstep.data import find, info
from fewstep.data.omniglot import omniglot_splits, read_omniglot

_CLASSES, _EDGE = 20, 105


def main() -> None:
    place = find("omniglot")
    if place is None:
        raise SystemExit("Omniglot is not here: fewstep data get omniglot, or name its folder with FEWSTEP_DATA.")
    whole = read_omniglot(place, _EDGE)
    tests = [omniglot_splits(whole.names, split)["test"] for split in info("omniglot").splits]
    names = [name for name in whole.names if all(name in test for test in tests)]
    # Evenly through the alphabets, which the names are sorted by.
    chosen = [names[number] for number in np.linspace(0, len(names) - 1, _CLASSES).round().astype(int)]
    ink = np.stack([whole.of(name)[..., 0] < 128 for name in chosen])
    path = Path(fewstep.__file__).parent / "data" / "omniglot-sample.npz"
    np.savez_compressed(path, ink=np.packbits(ink, axis=-1), edge=np.asarray(_EDGE), names=np.asarray(chosen))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, {len(chosen)} characters of {ink.shape[1]} drawings")


if __name__ == "__main__":
    main()
