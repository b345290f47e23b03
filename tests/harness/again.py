"""Programs that list what there is, and then do or print something for each, such as `ip address flush`.

They fail where NetworkManager, an agent or the kernel takes one of these away in between. Nothing is wrong then: what
is left is listed again.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

TRIES = 5
"""Others do not disturb each of them, so a program that fails as often is wrong."""

T = TypeVar("T")


def again(attempt: Callable[[], T], failure: type[Exception]) -> T:
    """Return what comes of an attempt, and repeat one that ends with this failure. Raises the failure of the last."""
    for _ in range(TRIES - 1):
        with suppress(failure):
            return attempt()
    return attempt()
