"""`python -m fewstep` is `fewstep`."""

from fewstep.cli import script

script()
