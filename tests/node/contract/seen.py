"""What tests of the contract see of a node's links."""

from msgspec.structs import replace

from lanloom.node.ports import Link
from tests.node.contract.node import Node


async def links(node: Node) -> dict[str, Link]:
    """The links of the node."""
    return dict((await node.host.links.dump()).links)


async def settings(node: Node) -> dict[str, Link]:
    """The links without their operstate, which follows later and by itself."""
    return {name: replace(link, operstate="") for name, link in (await links(node)).items()}
