"""The port itself: every call has a thread and sockets of its own.

Changes come from a socket that receives the kernel's notifications; a burst of them is one event.
"""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from lanloom.node.errors import LinkError
from lanloom.node.netlink import ingress
from lanloom.node.netlink.addressing import forwarded_versions
from lanloom.node.netlink.dump import read_isolated, read_state
from lanloom.node.netlink.messages import dump_socket
from lanloom.node.netlink.writer import LinkWriter
from lanloom.node.ports import BURST, LinkState, LinkStep

LINK_GROUP = 1 << 0
RULES6_GROUP = 1 << 18
GROUPS = LINK_GROUP | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | RULES6_GROUP
"""RTNLGRP_LINK (VLAN ids of bridges too), and _IFADDR, _ROUTE and _RULE of RTNLGRP_IPV4 and _IPV6: a mask of bits."""

FORWARDING_GROUPS = RULES6_GROUP | 1 << 23 | 1 << 24
"""RTNLGRP_IPV6_RULE, RTNLGRP_IPV4_NETCONF and _IPV6_NETCONF: settings of links and of the whole namespace."""

_SIZE = 1 << 16


def monitor_socket(groups: int = GROUPS) -> socket.socket:
    """Return a socket that receives changes of the network namespace that it is made in. Raises LinkError."""
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
    """Return when something was announced, after taking what else comes within BURST. Raises LinkError."""
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
    """Take a buffer that ran over for an unknown change; anything else is an error."""
    if error.errno != errno.ENOBUFS:
        raise LinkError(f"can't watch the kernel's links: {os.strerror(error.errno or 0)}") from error


T = TypeVar("T")


class InThread(Protocol):
    """Run a blocking function in a thread and return its result; the thread may be in another network namespace."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Call `function` there."""
        ...


class NetlinkLinks:
    """The links of the network namespace that `in_thread` runs its functions in; by default the process's own.

    With the name of an isolated `bridge` it shows bridges alone, with the ports of that one and of all that are marked,
    and watches links and forwarding, but no VLAN ids, addresses and routes: on a node where many links come
    and go, each of many processes looks at its few.
    """

    def __init__(self, in_thread: InThread = asyncio.to_thread, *, bridge: str = "") -> None:
        self._in_thread = in_thread
        self._read = partial(_dump_isolated, bridge) if bridge else _dump
        self._groups = LINK_GROUP | FORWARDING_GROUPS if bridge else GROUPS

    async def dump(self) -> LinkState:
        """Read the kernel's state: links, VLAN ids, and of each IP version addresses, routes, rules."""
        return await self._in_thread(self._read)

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """Apply the steps in order, through one socket; none is opened for no steps. Raises LinkError."""
        if steps:
            await self._in_thread(lambda: _apply(steps))

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield after each burst of the kernel's notifications. Raises LinkError."""
        with await self._monitor() as opened:
            while True:
                await next_change(opened)
                yield

    async def _monitor(self) -> socket.socket:
        opening = asyncio.ensure_future(self._in_thread(lambda: monitor_socket(self._groups)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on: its socket must not stay open although no task waits for it.
            opening.add_done_callback(_close)
            raise


def _close(opening: asyncio.Future[socket.socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _dump() -> LinkState:
    with dump_socket() as dumps:
        return read_state(dumps)


def _dump_isolated(bridge: str) -> LinkState:
    with dump_socket() as dumps:
        links = read_isolated(dumps, bridge)
        return LinkState(links, forwards=forwarded_versions(dumps), ingress=ingress.read(dumps))


def _apply(steps: tuple[LinkStep, ...]) -> None:
    with dump_socket() as sock:
        writer = LinkWriter(sock)
        for step in steps:
            writer.write(step)
