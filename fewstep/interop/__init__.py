"""Models of other frameworks as networks: `fewstep.interop.equinox`, `.linen` and `.nnx`, each imported by need."""

from fewstep.interop._function import network as network
