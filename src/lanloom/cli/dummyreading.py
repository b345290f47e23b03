"""How the commands of `lanloom dummy` read a cluster."""

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lanloom.app.dummyview import DummyView
    from lanloom.kube.ports import Client


async def read_views(client: "Client") -> "tuple[DummyView, ...]":
    """Every network. Raises KubeError."""
    from lanloom.app.dummyview import dummy_views, read_dummies

    objects, users = await read_dummies(client)
    return dummy_views(objects, users, time.time())


async def read_view(client: "Client", name: str) -> "DummyView":
    """One network with its Events. Raises KubeError, and ClickException if there is none of that name."""
    from msgspec.structs import replace

    from lanloom.api.l3 import quote
    from lanloom.app.dummyview import read_events

    views = await read_views(client)
    for view in views:
        if view.name == name:
            return replace(view, events=await read_events(client, view.uid))
    there = f"there are {', '.join(view.name for view in views)}" if views else "there is none"
    raise click.ClickException(f"there is no DummyClusterNetwork {quote(name)}; {there}")
