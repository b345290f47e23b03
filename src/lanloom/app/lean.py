"""Keeps parts of libraries that nothing needs out of long-running processes, where their memory would stay for good."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any


@contextmanager
def without(module: str) -> Iterator[None]:
    """While the block lasts, importing `module` fails as if it weren't installed, unless it is loaded already.

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
def parts_of(package: str, **origins: str) -> Iterator[None]:
    """The imports of the block load the parts of `package` that they name, not all that the package itself imports.

    `origins` says from which part a name comes that is imported from the package. The package stays as it is then;
    whoever asks it for another name, in the block or later, makes it whole. One that is loaded already is left alone.
    """
    if package not in sys.modules:
        _load_shell(package, origins)
    yield


def _load_shell(package: str, origins: dict[str, str]) -> None:
    """Puts the package among the loaded modules without running its `__init__`."""
    spec = find_spec(package)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {package}")
    shell, loader = module_from_spec(spec), spec.loader

    def missing(name: str) -> Any:
        """What the shell is asked for and has not got; a module's own `__getattr__` (PEP 562)."""
        if name in origins:
            return getattr(import_module(origins[name]), name)
        if name.startswith("__") or find_spec(f"{package}.{name}") is not None:
            raise AttributeError(name)  # the import statement goes on to look for a part of that name
        del shell.__getattr__
        loader.exec_module(shell)
        return getattr(shell, name)

    shell.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules[package] = shell
