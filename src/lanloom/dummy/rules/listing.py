"""How a message names several things: the first of them, and how many more there are."""

from collections.abc import Iterable

NAMED = 10
"""Things that a message names."""


def listed(texts: Iterable[str], most: int = NAMED) -> str:
    """Some things for a message, and how many more there are."""
    every = list(texts)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"
