"""Texts of others in messages: printable, on one line, and of bounded length; and hosts with their ports."""

from collections.abc import Iterable

QUOTED = 60
"""Characters that a message shows of a value."""
LISTED = 10
"""Names that a message lists; of the others it gives the number."""


def one_line(text: str) -> str:
    """Return a text with a replacement character for each character that a terminal would not print."""
    return "".join(char if char.isprintable() else "�" for char in text)


def quote(value: object, limit: int = QUOTED) -> str:
    """Return a value in JSON and ASCII, so that look-alike letters show; cut to `limit` characters.

    The quotation marks of a text come on top of that.
    """
    import json  # which compiles expressions that a list without bad news has no use for

    try:
        text = json.dumps(value, default=str)
    except RecursionError:  # a document that could just be read may be nested too deeply to be written
        return "a deeply nested value"
    if isinstance(value, str):
        return text if len(text) <= limit + 2 else text[:limit] + '…"'
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(texts: Iterable[str], most: int = LISTED) -> str:
    """Return the first names, and the number of the others."""
    every = list(texts)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address in brackets (RFC 3986)."""
    return f"[{host}]" if ":" in host else host


def authority(host: str, port: int | str) -> str:
    """Return a host and its port as they stand in a URL, an option or a message (RFC 3986).

    It is the only place that joins them: without brackets, the port is a part of an IPv6 address.
    """
    return f"{bracketed(host)}:{port}"
