"""Compiler options."""

import os

import jax

_OPTIONS: dict[str, int | bool] = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def light() -> dict[str, int | bool] | None:
    """Compiler options for a program that runs seldom, or on small arrays: on a CPU it compiles in half the time and
    runs as fast. What the user's XLA_FLAGS name stands."""
    named = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in _OPTIONS.items() if name not in named}
    return options if options and jax.default_backend() == "cpu" else None
