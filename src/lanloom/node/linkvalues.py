"""What a link that Lanloom makes can be called, and which hardware address it can have: checked before each step."""

import re

from lanloom.api.names import LINK_NAME_MAX
from lanloom.node.errors import LinkError

_NAME = re.compile(rf"[-._a-zA-Z0-9]{{1,{LINK_NAME_MAX}}}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)


def check_name(title: str, name: str) -> None:
    """Raise LinkError for what can't be a link's name."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise LinkError(
            f"{title}: {name!r} can't be the name of a link: 1 to {LINK_NAME_MAX} letters, digits, dots, dashes and "
            "underscores"
        )


def check_mac(title: str, mac: str) -> None:
    """Raise LinkError for a text that is not the address of one station in lower case; an empty one leaves it open."""
    if mac and not _is_unicast(mac):
        raise LinkError(f"{title}: {mac!r} is not the MAC address of a link, such as 02:00:00:00:00:01")


def _is_unicast(mac: str) -> bool:
    return _MAC.fullmatch(mac) is not None and mac != "00:00:00:00:00:00" and not int(mac[:2], 16) & 1
