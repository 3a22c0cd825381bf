"""The machine: devices and how tasks are laid out on them, compilation, processes, provenance."""
