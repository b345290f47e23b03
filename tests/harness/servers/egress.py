"""How a kube-apiserver reaches pods that only nodes can reach: its egress selector, by HTTP CONNECT on a Unix socket.

Clusters whose control plane is outside of the nodes' network do so (konnectivity). Each connection is made in the
network namespace of the node whose range has the pod's address, so nothing of the host's network is changed.
"""

import asyncio
import ipaddress
import json
import socket
from collections.abc import Iterator
from pathlib import Path

from lanloom.runtime.probes import parse_address
from tests.harness.forwarding import Forwarding, Serving, join
from tests.harness.namespaces import call

CONNECT_SECONDS = 5.0

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def selector(path: Path) -> str:
    """Return the configuration of the kube-apiserver, for --egress-selector-config-file."""
    transport = {"uds": {"udsName": str(path)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    body = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return json.dumps(body)


class Egress(Forwarding):
    """Use as a context manager; `ways` names the network namespace of each range of pods, and may grow."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ways: dict[IPNetwork, Path] = {}
        self._path = path

    def _listen(self) -> Iterator[Serving]:
        yield asyncio.start_unix_server(self._serve, self._path)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        host, port = parse_address(head.split()[1].decode())
        try:
            made = await asyncio.to_thread(self._connect, host, port)
        except OSError as error:
            writer.write(f"HTTP/1.1 503 Service Unavailable\r\n\r\n{error}".encode())
        else:
            others = await asyncio.open_connection(sock=made)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await join(reader, writer, others)

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect from within the node that has the pod. Raises OSError."""
        address = ipaddress.ip_address(host)
        ways = [path for network, path in self.ways.items() if address in network]
        if not ways:
            raise OSError(f"no node has {host}")
        made = call(ways[0], lambda: socket.create_connection((host, port), timeout=CONNECT_SECONDS))
        made.setblocking(False)
        return made
