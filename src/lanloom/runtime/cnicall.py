"""What features that answer CNI calls have in common: errors by CNI's numbers, and the list for garbage collection."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

INCOMPATIBLE, UNKNOWN_CONTAINER, BAD_ENVIRONMENT, NOT_DECODED, BAD_CONFIG, TRY_AGAIN, NOT_AVAILABLE = (
    1,
    3,
    4,
    6,
    7,
    11,
    50,
)
"""CNI's codes for errors."""

REFUSED, DIFFERENT = 100, 101
"""Lanloom's own: what is asked for is not allowed; a CHECK found another state than the result of ADD."""


class CniError(Exception):
    """A call that fails; the texts are what the runtime shows."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details


def network_name(config: dict[str, Any]) -> str:
    """Return the name of the CNI network of a configuration. Raises CniError."""
    name = config.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 253 or not name.isprintable():
        raise CniError(BAD_CONFIG, "name: the network configuration must have a name")
    return name


_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""The key, and a misspelling of it that runtimes send beside it."""

_Short = Annotated[str, Meta(max_length=255)]


class _Valid(Struct, frozen=True, rename={"container": "containerID"}):
    container: _Short
    ifname: _Short


def valid_attachments(config: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """Container and interface of each. Raises CniError also where there is no list: nothing is garbage by default."""
    listed = next((config[key] for key in _KEYS if key in config), None)
    if listed is None:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: GC needs the list of attachments that are in use")
    try:
        return frozenset((item.container, item.ifname) for item in msgspec.convert(listed, list[_Valid]))
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: {error}") from None
