"""`lanloom network tag`: the tags of networks."""

import click

from lanloom.cli.networkrunning import Changing, changing_options, network_argument, read
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals


@click.group(name="tag")
def tag() -> None:
    """Show, add and remove the tags of a network.

    \b
    Examples:
      lanloom network tag add net1 blue test
      lanloom network tag list net1
      lanloom network tag remove net1 test
    """


@tag.command(name="list")
@network_argument
@kubeconfig_option
def list_tags(network: str, kubeconfig: str | None) -> None:
    """Print the tags of a network, one a line.

    \b
    Example:
      lanloom network tag list net1
    """
    state = read(kubeconfig, [network])
    with refusals():
        item = state.find(network)
    for text in item.spec.tags:
        click.echo(text)


@tag.command()
@network_argument
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@changing_options
def add(network: str, tags: tuple[str, ...], changing: Changing) -> None:
    """Add tags to a network. One that it has stays.

    \b
    Example:
      lanloom network tag add net1 blue test
    """
    from lanloom.ipam.rules.general import AddTags, check_tag

    with refusals():
        steps = [AddTags(tags=tuple(map(check_tag, tags)))]
    changing.change(network, lambda _: steps)


@tag.command()
@network_argument
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@changing_options
def remove(network: str, tags: tuple[str, ...], changing: Changing) -> None:
    """Remove tags from a network; all of them or, if it has not got one, none.

    \b
    Example:
      lanloom network tag remove net1 test
    """
    from lanloom.ipam.rules.general import RemoveTags, check_tag

    with refusals():
        steps = [RemoveTags(tags=tuple(map(check_tag, tags)))]
    changing.change(network, lambda _: steps)
