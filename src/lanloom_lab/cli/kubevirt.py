"""`lanloom lab kubevirt`: which KubeVirt the lab plays, now and from now on."""

import asyncio
from typing import TYPE_CHECKING

import click

from lanloom_lab.plan import KUBEVIRT_RELEASES, UPDATE_METHODS

if TYPE_CHECKING:
    from lanloom_lab.layout import Layout


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
def command(layout: "Layout", release: str | None, methods: str) -> None:
    """Let the lab play the live update of a release of KubeVirt, or show which one it plays.

    Machines run on. `none` is a cluster without KubeVirt, on which Lanloom does all.

    \b
    Examples:
      lanloom lab kubevirt 1.9
      lanloom lab kubevirt main --methods LiveMigrate,Evict
      lanloom lab kubevirt
    """
    click.echo(asyncio.run(choose(layout, release, methods)))


async def choose(layout: "Layout", release: str | None, methods: str) -> str:
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
