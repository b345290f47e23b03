"""The addresses of a cluster for tests: all of IPv4, or all of IPv6."""

from typing import NamedTuple

from lanloom.text import bracketed


class Family(NamedTuple):
    """Addresses of one IP version, all of them literals without brackets."""

    loopback: str
    """Of the host, on which the server listens."""

    advertised: str
    """Of the server, as it tells others: it must not be a loopback address."""

    services: str
    """The range of Services."""

    kubernetes: str
    """Of the Service `kubernetes`, by which pods know their server."""

    node: str
    """Of each node; kubelet refuses loopback addresses."""

    everywhere: str
    """All addresses, as the destination of a route."""

    def url(self, port: int) -> str:
        """Return the URL of a server on the host."""
        return f"https://{bracketed(self.loopback)}:{port}"


IPV4 = Family("127.0.0.1", "192.0.2.1", "10.0.0.0/24", "10.0.0.1", "192.0.2.10", "0.0.0.0/0")
IPV6 = Family("::1", "2001:db8::1", "fd00:10::/112", "fd00:10::1", "2001:db8::10", "::/0")


def family_of(address: str) -> Family:
    """Return the addresses of the IP version of an address, or of a range."""
    return IPV6 if ":" in address else IPV4
