"""`lanloom lab harvester` and `lanloom lab kubevirt`: which programs of others the lab plays, now and from now on."""

import asyncio
from typing import TYPE_CHECKING, Literal

import click

from lanloom_lab.plan import KUBEVIRT_RELEASES, UPDATE_METHODS

if TYPE_CHECKING:
    from lanloom_lab.layout import Layout

State = Literal["on", "off"]


@click.command()
@click.argument("state", type=click.Choice(("on", "off")), required=False)
@click.pass_obj
def harvester_command(layout: "Layout", state: State | None) -> None:
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
    click.echo(asyncio.run(choose_harvester(layout, state)))


async def choose_harvester(layout: "Layout", state: State | None) -> str:
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


@click.command()
@click.argument("release", type=click.Choice(KUBEVIRT_RELEASES), required=False)
@click.option(
    "--methods",
    default="LiveMigrate",
    show_default=True,
    metavar=",".join(UPDATE_METHODS),
    help="workloadUpdateMethods of KubeVirt, with commas between; an empty text for none.",
)
@click.pass_obj
def kubevirt_command(layout: "Layout", release: str | None, methods: str) -> None:
    """Let the lab play the live update of a release of KubeVirt, or show which one it plays.

    Machines run on. `none` is a cluster without KubeVirt, on which Lanloom does all.

    \b
    Examples:
      lanloom lab kubevirt 1.9
      lanloom lab kubevirt main --methods LiveMigrate,Evict
      lanloom lab kubevirt
    """
    click.echo(asyncio.run(choose_kubevirt(layout, release, methods)))


async def choose_kubevirt(layout: "Layout", release: str | None, methods: str) -> str:
    """Play a release from now on, unless it is None; return in words what is played. Raises LabError."""
    from lanloom.api.kubevirtconfig import KUBEVIRTS
    from lanloom.cli.cluster import connect
    from lanloom.kube.lookup import list_or_empty
    from lanloom_lab.client import not_running
    from lanloom_lab.kubevirt.installed import describe, install, parse_methods

    if not layout.runs():
        raise not_running(layout)
    async with connect(str(layout.kubeconfig)) as client:
        if release is not None:
            await install(client, release, parse_methods(methods))
        return describe(await list_or_empty(client, KUBEVIRTS))
