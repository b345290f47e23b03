"""Listening sockets of a process: of TCP at one address or at all of the machine, and Unix sockets of an agent."""

import errno
import os
import socket
from pathlib import Path

from lanloom.text import authority

EVERYWHERE = "::"
"""All addresses of both IP versions: a cluster may have IPv4, IPv6 or both, and pods don't know which before."""

_ANY_IPV4 = "0.0.0.0"
_FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
"""IP_FREEBIND and IPV6_FREEBIND of <linux/in.h> and <linux/in6.h>, which the socket module has no names for."""


def listen(
    host: str,
    port: int,
    *,
    backlog: int = 1024,
    absent: bool = False,
    remedy: str = "choose another port or address",
) -> socket.socket:
    """Return a listening socket. Raises OSError, which names the address and ends with the remedy.

    EVERYWHERE is IPv4 alone on a machine whose kernel has no IPv6. With `absent` the address need not be there yet.
    """
    try:
        return _listen(host, port, backlog, absent)
    except OSError as error:
        if host == EVERYWHERE and error.errno == errno.EAFNOSUPPORT:
            return listen(_ANY_IPV4, port, backlog=backlog, absent=absent, remedy=remedy)
        reason = error.strerror or str(error)
        raise OSError(f"can't listen on {authority(host, port)}: {reason}; {remedy}") from error


def _listen(host: str, port: int, backlog: int, absent: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, because asyncio switches Nagle off only for sockets that say they are TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == EVERYWHERE:
            # The machine's own setting, net.ipv6.bindv6only, may be another one.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if absent:
            sock.setsockopt(*_FREEBIND[family], 1)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def listen_at(path: Path) -> socket.socket:
    """Return a Unix socket that replaces a dead agent's in one step; no other user can write to it at any moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(fresh))
        finally:
            os.umask(before)
        listening.listen(64)
        listening.setblocking(False)
        fresh.rename(path)
    except BaseException:
        listening.close()
        raise
    return listening
