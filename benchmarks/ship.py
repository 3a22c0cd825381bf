"""Takes the last parameters of a finished run into the package, as one npz that users can adapt at once.

python benchmarks/ship.py runs/reproduce-omniglot/cells/mtnet-5way-1shot omniglot-mtnet-5way
"""

import sys
from pathlib import Path

import fewstep
from fewstep.machine.provenance import commit
from fewstep.models import save_model
from fewstep.runs import load


def main(run: Path, name: str) -> None:
    model = load(run)
    home = Path(fewstep.__file__).parent / "pretrained"
    home.mkdir(exist_ok=True)
    save_model(home / f"{name}.npz", model, about={"commit": commit()}, compressed=True)
    print(f"{home / name}.npz: {(home / f'{name}.npz').stat().st_size / 1000:.0f} kB, step {model.step}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
