"""The port of a node's kernel, as far as DHCP goes. `ipam.agent.links` is the adapter."""

import socket
from collections.abc import Mapping
from typing import Protocol

from lanloom.features.ipam.dhcp.clients import PortId, SeenPort


class GuestPorts(Protocol):
    """A node's kernel. Both raise NodeError and its kinds."""

    async def ports(
        self, bridges: Mapping[str, frozenset[str]], known: Mapping[PortId, SeenPort]
    ) -> tuple[SeenPort, ...]:
        """Return the ports of veth pairs at these bridges, by the path of the namespace, empty for the node's own.

        A namespace that is not there has none; without names of bridges, the ports of all of its bridges are meant.
        What is behind a port is not asked again of one that is `known` and where it was.
        """
        ...

    async def listen(self, port: PortId) -> socket.socket:
        """Return a socket that hears the DHCP requests that come in by a port, and sends frames out by it.

        It does not block, and ends with an error when the link goes, or leaves its namespace.
        """
        ...
