"""The HTTP front: what comes over the wire becomes a call of the engine, and its answer goes back.

A plain ASGI application without a framework's router: a path of the Kubernetes API is taken apart once, in
microseconds, and most requests are about objects.
"""
