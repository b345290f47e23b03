"""Isolated bridges of a host that belong to nobody any more."""

from collections.abc import Iterable, Mapping

from lanloom.api.dummy import DummyClusterNetwork
from lanloom.node.guards import standing_on
from lanloom.node.isolated import unfinished_name
from lanloom.node.ports import Link
from lanloom.node.steps import DeleteLink, LinkStep, RemoveIsolatedBridge


def surplus(networks: Iterable[DummyClusterNetwork], links: Mapping[str, Link]) -> tuple[LinkStep, ...]:
    """The steps that rid a host of the bridges that none of the networks has, and that nobody uses.

    Only what has the mark, or the name of what is half-made, is looked at. A network that is being deleted still has
    its bridge; one that says no bridge's name may have any.
    """
    bridges = {item.metadata.uid: item.spec.bridge_name for item in networks}
    half_made = {unfinished_name(uid) for uid in bridges}
    steps: list[LinkStep] = []
    for name, link in sorted(links.items()):
        owner = link.isolated_owner
        if owner and bridges.get(owner, "-") not in (name, "") and not standing_on(name, links):
            steps.append(RemoveIsolatedBridge(name=name, owner=owner))
        elif link.unfinished and name not in half_made:
            steps.append(DeleteLink(name=name))
    return tuple(steps)
