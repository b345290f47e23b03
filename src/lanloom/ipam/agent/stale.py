"""Which attachments a runtime still knows, when it asks for garbage to be collected."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from lanloom.api.cni import CONTAINER, LINK
from lanloom.api.ipam import Nic
from lanloom.ipam.agent.protocol import BAD_CONFIG, CniError

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


def stale_marks(nic: Nic, valid: frozenset[tuple[str, str]]) -> bool:
    """Whether a pod's NIC was made for an attachment that is not among the valid ones."""
    marks = nic.metadata.annotations
    return (marks.get(CONTAINER, ""), marks.get(LINK, "")) not in valid
