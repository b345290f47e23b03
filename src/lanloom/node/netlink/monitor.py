"""The kernel's own announcements of changes: a socket that hears them, and their bursts as single events."""

import asyncio
import errno
import os
import socket

from lanloom.node.errors import LinkError
from lanloom.node.ports import BURST

LINK_GROUP = 1 << 0
GROUPS = LINK_GROUP | 1 << 4 | 1 << 6 | 1 << 7
"""RTNLGRP_LINK (VLAN ids of bridges too), RTNLGRP_IPV4_IFADDR, _ROUTE and _RULE, as a mask of their bits."""

_SIZE = 1 << 16


def monitor_socket(groups: int = GROUPS) -> socket.socket:
    """A socket that hears changes of the network namespace that it is made in. Raises LinkError."""
    try:
        opened = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
            socket.NETLINK_ROUTE,
        )
    except OSError as error:
        raise LinkError(f"can't watch the kernel's links: {error.strerror}") from error
    try:
        opened.bind((0, groups))
    except OSError as error:
        opened.close()
        raise LinkError(f"can't watch the kernel's links: {error.strerror}") from error
    return opened


async def next_change(opened: socket.socket) -> None:
    """Returns when something was announced, and takes what else comes within BURST. Raises LinkError."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_recv(opened, _SIZE)
    except OSError as error:
        _tolerate_overrun(error)
    await asyncio.sleep(BURST)
    _drain(opened)


def _drain(opened: socket.socket) -> None:
    while True:
        try:
            opened.recv(_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            _tolerate_overrun(error)


def _tolerate_overrun(error: OSError) -> None:
    """A buffer that ran over is a change that nobody can name; anything else is an error."""
    if error.errno != errno.ENOBUFS:
        raise LinkError(f"can't watch the kernel's links: {os.strerror(error.errno or 0)}") from error
