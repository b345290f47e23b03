"""`lanloom lab console`: a link to the lab's web pages."""

import asyncio
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lanloom_lab.layout import Layout


@click.command(name="console")
@click.pass_obj
def command(layout: "Layout") -> None:
    """Print a link to the lab's web pages, which end with the lab.

    The link logs one browser in with all rights to the lab's cluster, once and within ten minutes. The pages change
    nothing.
    """
    click.echo(link_to(layout))


def show_link(layout: "Layout") -> None:
    """Print a link, below what was printed of the lab."""
    click.echo(
        "\nThe lab as web pages, for one browser within ten minutes (`lanloom lab console` prints another link):"
    )
    click.echo(link_to(layout))


def link_to(layout: "Layout") -> str:
    """Return a new link. Raises LabError."""
    from lanloom_lab import client, protocol

    answer = asyncio.run(client.ask(layout, protocol.LinkToConsole()))
    assert isinstance(answer, protocol.Link)
    return answer.url
