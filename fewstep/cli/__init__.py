"""The command line: `fewstep COMMAND`; each command is a thin file."""

from fewstep.cli._main import main as main
from fewstep.cli._main import script as script
