"""The one exception a user's mistake raises; the command line turns it into a message and exit code 2."""

import difflib
from collections.abc import Iterable


class FewstepError(ValueError):
    """A mistake in what fewstep was given: the fact with its values, the reason, the literal fix.

    `code` is a word for programs, which the service passes on to its clients.
    """

    def __init__(self, message: str = "", *, code: str | None = None):
        super().__init__(message)
        self.code = code


def unknown(kind: str, name: str, known: Iterable[str]) -> FewstepError:
    """The error for a name that is not in a list, with the nearest one that is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return FewstepError(f"Unknown {kind} {name!r}. {hint}Known: {', '.join(names)}.")
