"""`lanloom lab harvester`: whether the lab plays Harvester's network controller, now and from now on."""

import asyncio
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from lanloom_lab.layout import Layout

State = Literal["on", "off"]


@click.command()
@click.argument("state", type=click.Choice(("on", "off")), required=False)
@click.pass_obj
def command(layout: "Layout", state: State | None) -> None:
    """Let the lab play Harvester's network controller with its webhook, or show whether it does.

    Its manager, its webhook and an agent on each node run as long as their service accounts are in the namespace
    harvester-system. When they go, links, objects, finalizers and webhook configurations stay, as after an
    uninstallation of Harvester's chart: `lanloom harvester adopt` continues from there.

    \b
    Examples:
      lanloom lab harvester on
      lanloom lab harvester off
      lanloom lab harvester
    """
    click.echo(asyncio.run(choose(layout, state)))


async def choose(layout: "Layout", state: State | None) -> str:
    """Play it or no longer, unless `state` is None; return in words what is played. Raises LabError."""
    from lanloom.api.core import SERVICE_ACCOUNTS
    from lanloom.api.meta import Key
    from lanloom.api.names import HARVESTER_ACCOUNT, HARVESTER_NAMESPACE
    from lanloom.cli.cluster import connect
    from lanloom.kube.lookup import get_or_none
    from lanloom_lab.client import not_running
    from lanloom_lab.harvester.definitions import install, uninstall

    if not layout.runs():
        raise not_running(layout)
    async with connect(str(layout.kubeconfig)) as client:
        if state is not None:
            await (install(client, replace=False) if state == "on" else uninstall(client))
        there = await get_or_none(client, SERVICE_ACCOUNTS, Key(HARVESTER_NAMESPACE, HARVESTER_ACCOUNT))
        return "Harvester's network controller" if there is not None else "no Harvester: Lanloom works alone"
