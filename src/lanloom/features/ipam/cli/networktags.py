"""`lanloom network tag`, and the same as `gnt-network` calls it: `add-tags`, `remove-tags`, `list-tags`."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lanloom.cli.cluster import ClusterOptions, refusals
from lanloom.cli.options import cluster_options, once_option
from lanloom.features.ipam.cli.cluster import (
    ChangeOptions,
    change_options,
    complete_tags,
    network_argument,
    read_networks,
)

F = TypeVar("F", bound=Callable[..., Any])


def _tags_arguments(function: F) -> F:
    """[TAG]…, and `--from FILE` with a tag in each line."""
    tags_file = once_option(
        "--from",
        "tags_file",
        type=click.File(),
        metavar="FILE",
        help="Also the tags of a file, one in each line; - for standard input.",
    )(function)
    return click.argument("tags", nargs=-1, metavar="[TAG]...", shell_complete=complete_tags)(tags_file)


def _given(tags: tuple[str, ...], tags_file: Any) -> tuple[str, ...]:
    """Return the tags of arguments and file. Raises UsageError, Malformed."""
    from lanloom.features.ipam.rules.general import check_tag

    lines = tuple(line.strip() for line in tags_file or ())
    found = (*tags, *filter(None, lines))
    if not found:
        raise click.UsageError("name tags, or a file with --from")
    return tuple(map(check_tag, dict.fromkeys(found)))


@click.group()
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
@cluster_options
def list_tags(network: str, cluster: ClusterOptions) -> None:
    """Print the tags of a network, one per line.

    \b
    Example:
      lanloom network tag list net1
    """
    state = read_networks(cluster, [network])
    with refusals():
        item = state.find(network)
    for text in item.spec.tags:
        click.echo(text)


@tag.command(name="add")
@network_argument
@_tags_arguments
@change_options
def add_tags(network: str, tags: tuple[str, ...], tags_file: Any, change: ChangeOptions) -> None:
    """Add tags to a network. Existing tags remain.

    \b
    Example:
      lanloom network tag add net1 blue test
    """
    from lanloom.features.ipam.rules.general import AddTags

    with refusals():
        steps = [AddTags(tags=_given(tags, tags_file))]
    change.modify(network, lambda _: steps)


@tag.command(name="remove")
@network_argument
@_tags_arguments
@change_options
def remove_tags(network: str, tags: tuple[str, ...], tags_file: Any, change: ChangeOptions) -> None:
    """Remove tags from a network. If the network lacks one of them, none is removed.

    \b
    Example:
      lanloom network tag remove net1 test
    """
    from lanloom.features.ipam.rules.general import RemoveTags

    with refusals():
        steps = [RemoveTags(tags=_given(tags, tags_file))]
    change.modify(network, lambda _: steps)


def _named(name: str, original: click.Command) -> click.Command:
    """Return the same command under Ganeti's name."""
    twin = copy.copy(original)
    twin.name, twin.hidden = name, True
    twin.help = (original.help or "").replace(f"network tag {original.name}", f"network {name}")
    return twin


list_network_tags, add_network_tags, remove_network_tags = (
    _named("list-tags", list_tags),
    _named("add-tags", add_tags),
    _named("remove-tags", remove_tags),
)
"""The commands as Ganeti has them."""
