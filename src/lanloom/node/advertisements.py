"""Router advertisements of IPv6 on a bridge that guests are on: the host takes no route and no address from a guest.

CNI's plugin `bridge` does this before a pod joins. What gives a bridge other ports does it, too. It needs `/proc/sys`,
as rtnetlink can't change the setting.
"""

from contextlib import suppress
from pathlib import Path


def ignore_routers(bridge: str) -> None:
    """Let the host ignore routers on a bridge of this network namespace. Raises OSError.

    A kernel without IPv6, or a bridge that is gone, needs no setting.
    """
    path = Path("/proc/sys/net/ipv6/conf", bridge, "accept_ra")
    with suppress(FileNotFoundError):
        if path.read_bytes().strip() != b"0":
            path.write_bytes(b"0")
