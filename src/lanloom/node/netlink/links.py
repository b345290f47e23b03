"""The port itself: every call has a thread and sockets of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from socket import socket
from typing import TYPE_CHECKING, Protocol, TypeVar

from lanloom.node.netlink.changes import Changes
from lanloom.node.netlink.dump import read_isolated, read_state
from lanloom.node.netlink.messages import dump_socket
from lanloom.node.netlink.monitor import GROUPS, LINK_GROUP, monitor_socket, next_change
from lanloom.node.ports import LinkState
from lanloom.node.steps import LinkStep

if TYPE_CHECKING:
    from lanloom.node.netlink.route import Route

T = TypeVar("T")


class InThread(Protocol):
    """Runs a blocking function in a thread and gives its result; the thread may be in another network namespace."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Calls `function` there."""
        ...


class NetlinkLinks:
    """The links of the network namespace that `in_thread` runs its functions in; by default the process's own.

    With the name of an isolated `bridge` it shows bridges alone, with the ports of that one and of all that are marked,
    and watches links but no VLAN ids, addresses and routes: on a node where many links come and go, each of many
    processes looks at its few.
    """

    def __init__(self, in_thread: InThread = asyncio.to_thread, *, bridge: str = "") -> None:
        self._in_thread = in_thread
        self._look = partial(_dump_isolated, bridge) if bridge else _dump
        self._groups = LINK_GROUP if bridge else GROUPS

    async def dump(self) -> LinkState:
        """As the port says. Five dumps: links, VLAN ids, addresses, routes, rules."""
        return await self._in_thread(self._look)

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """As the port says; no socket is opened for no steps."""
        if steps:
            await self._in_thread(lambda: _apply(steps))

    async def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        with await self._monitor() as opened:
            while True:
                await next_change(opened)
                yield

    async def _monitor(self) -> socket:
        opening = asyncio.ensure_future(self._in_thread(lambda: monitor_socket(self._groups)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on: its socket must not stay open because nobody waits for it.
            opening.add_done_callback(_close)
            raise


def _close(opening: asyncio.Future[socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _dump() -> LinkState:
    with dump_socket() as dumps:
        return read_state(dumps)


def _dump_isolated(bridge: str) -> LinkState:
    with dump_socket() as dumps:
        return LinkState(read_isolated(dumps, bridge))


def _apply(steps: tuple[LinkStep, ...]) -> None:
    with dump_socket() as dumps, ExitStack() as stack:
        changes = Changes(lambda: stack.enter_context(_route_socket()), dumps)
        for step in steps:
            changes.apply(step)


def _route_socket() -> "Route":
    from lanloom.node.netlink.route import Route

    return Route()
