"""The HTTP face: the ASGI application, its routes, who may use it, and the server that runs it."""
