"""HTTP around the verbs: a bare ASGI application on uvicorn.

The application knows nothing of sockets, the lifecycle nothing of verbs; the
verbs below know nothing of either.
"""
