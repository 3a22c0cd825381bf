"""The commands that the studies add to `fewstep`; each is a thin file."""
