"""How the commands of `lanloom dummy` read a cluster."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from lanloom.app.dummyview import DummyView
    from lanloom.kube.ports import Client

T = TypeVar("T")


def read(kubeconfig: str | None, work: "Callable[[Client], Awaitable[T]]") -> T:
    """What comes of looking at the cluster. Ends the command where it can't be read."""
    from lanloom.app.connect import connect
    from lanloom.app.dummyview import NotServed
    from lanloom.kube.errors import KubeError

    async def connected() -> T:
        async with connect(kubeconfig) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except (KubeError, NotServed) as error:
        raise click.ClickException(str(error)) from None


async def read_views(client: "Client") -> "tuple[DummyView, ...]":
    """Every network. Raises KubeError, NotServed."""
    from lanloom.app.dummyview import dummy_views, read_dummies

    objects, users = await read_dummies(client)
    return dummy_views(objects, users, time.time())


async def read_view(client: "Client", name: str) -> "DummyView":
    """One network with its Events. Raises KubeError, NotServed, and ClickException if there is none of that name."""
    from msgspec.structs import replace

    from lanloom.api.l3 import quote
    from lanloom.app.dummyview import read_events

    views = await read_views(client)
    for view in views:
        if view.name == name:
            return replace(view, events=await read_events(client, view.uid))
    there = f"there are {', '.join(view.name for view in views)}" if views else "there is none"
    raise click.ClickException(f"there is no DummyClusterNetwork {quote(name)}; {there}")
