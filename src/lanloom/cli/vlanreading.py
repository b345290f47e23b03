"""How the commands of `lanloom vlan` read a cluster."""

import asyncio
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lanloom.app.vlan.objects import VlanObjects


def read(kubeconfig: str | None, *, with_vms: bool = False) -> "VlanObjects":
    """The cluster's objects. Ends the command where they can't be read."""
    from lanloom.kube.errors import KubeError

    try:
        return asyncio.run(read_now(kubeconfig, with_vms=with_vms))
    except KubeError as error:
        raise click.ClickException(str(error)) from None


async def read_now(kubeconfig: str | None, *, with_vms: bool = False) -> "VlanObjects":
    """The cluster's objects. Raises KubeError."""
    from lanloom.app.connect import connect
    from lanloom.app.vlan.objects import read_objects

    async with connect(kubeconfig) as client:
        return await read_objects(client, with_vms=with_vms)
