"""`lanloom network tag`: the tags of networks."""

import click

from lanloom.cli.cluster import dry_run_option
from lanloom.cli.networkrunning import change, network_argument, read
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
@dry_run_option
@kubeconfig_option
def add(network: str, tags: tuple[str, ...], dry_run: bool, kubeconfig: str | None) -> None:
    """Add tags to a network. One that it has stays.

    \b
    Example:
      lanloom network tag add net1 blue test
    """
    from lanloom.ipam.rules.general import AddTags, check_tag

    with refusals():
        steps = [AddTags(tags=tuple(map(check_tag, tags)))]
    change(kubeconfig, network, lambda _: steps, dry_run=dry_run)


@tag.command()
@network_argument
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@dry_run_option
@kubeconfig_option
def remove(network: str, tags: tuple[str, ...], dry_run: bool, kubeconfig: str | None) -> None:
    """Remove tags from a network; all of them or, if it has not got one, none.

    \b
    Example:
      lanloom network tag remove net1 test
    """
    from lanloom.ipam.rules.general import RemoveTags, check_tag

    with refusals():
        steps = [RemoveTags(tags=tuple(map(check_tag, tags)))]
    change(kubeconfig, network, lambda _: steps, dry_run=dry_run)
