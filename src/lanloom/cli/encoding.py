"""Output where it can't be in Unicode, as in a Latin-1 locale: what is told must not fail because of an arrow.

A change is made before it is told, so that an error there would look like one of the change.
"""

import codecs
import io
import sys

_PLAIN = {"→": "->", "…": "...", "·": "."}

_HANDLER = "lanloom-plain"


def write_anyway() -> None:
    """From now on, standard output and error show in other characters what their encoding does not have."""
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(char, "?") for char in error.object[error.start : error.end]), error.end
