"""Connections from a node's network namespace to a server on the host's loopback address.

A socket stays in the namespace in which it was made. So the listening one is made in the node's, on the address of the
server, and served from here: nothing else gets out of the node, and one kubeconfig is right on both sides.
"""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.harness.forwarding import Forwarding, Serving, join
from tests.harness.namespaces import call


class Relay(Forwarding):
    """Use as a context manager; `network` is the path of the namespace, `place` the server's on the host.

    `services` are more addresses of the namespace, with ports, at which it is reached there. A server that is not there
    is reported by closing the connection.
    """

    def __init__(
        self, network: Path, place: tuple[str, int], services: Sequence[tuple[str, int]] = ()
    ) -> None:
        super().__init__()
        self._network = network
        self._place = place
        self._places = (place, *services)

    def _listen(self) -> Iterator[Serving]:
        for place in self._places:
            family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
            listening = call(self._network, partial(socket.create_server, place, family=family))
            yield asyncio.start_server(self._serve, sock=listening)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await join(reader, writer, await asyncio.open_connection(*self._place))
