"""Slim imports: keep parts of libraries that nothing needs out of long-running processes, and garbage collection out.

A bridge process of an isolated network, of which a node runs many, takes 22 MB so, and 30 MB with `ssl` and `rich`.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Make imports of modules fail for the block as if they were not installed, except of those that are loaded.

    For libraries that import them only to use them if they are there. Afterwards they can be imported as ever.
    """
    absent = [module for module in modules if module not in sys.modules]
    for module in absent:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in absent:
            del sys.modules[module]


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the search for garbage while the block imports modules: what they define stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
