"""Slim imports: keep parts of libraries that nothing needs out of long-running processes, and garbage collection out.

A bridge process of an isolated network, of which a node runs many, takes 22 MB so, and 30 MB with `ssl` and `rich`.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(module: str) -> Iterator[None]:
    """Make imports of `module` fail for the block as if it were not installed, unless it is loaded already.

    For libraries that import it only to use it if it is there. Afterwards it can be imported as ever.
    """
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
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
