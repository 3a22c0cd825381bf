"""Compiler options."""

import os

import jax


def light() -> dict[str, int] | None:
    """Compiler options for a program that runs seldom: on a CPU it compiles in half the time and runs as fast. A level
    that the user's XLA_FLAGS name stands."""
    level = "xla_backend_optimization_level"
    named = level in os.environ.get("XLA_FLAGS", "")
    return {level: 1} if jax.default_backend() == "cpu" and not named else None
