"""Python's syntax trees of source texts."""

import ast
import gc


def parse(text: str | bytes, *, feature_version: tuple[int, int] | None = None) -> ast.Module:
    """As `ast.parse`, with no garbage collection meanwhile.

    A finalizer that logs a traceback parses its lines; CPython 3.11 can't do that within another parse (SystemError).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, feature_version=feature_version)
    finally:
        if was_on:
            gc.enable()
