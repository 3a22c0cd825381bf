"""Trained runs as a service over HTTP, and a client for it."""

from fewstep.serve.client import Client as Client
from fewstep.serve.client import ServiceError as ServiceError
