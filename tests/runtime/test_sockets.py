"""Where processes listen: at one address, or at all."""

import errno
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from lanloom.processes.manager import Endpoint, ManagerSettings
from lanloom.runtime.https.peers import peer_of
from lanloom.runtime.sockets import EVERYWHERE, listen


@contextmanager
def _accepted(listening: socket.socket, address: str) -> Iterator[str]:
    """Connect to an address of this machine, and give the peer that the server sees."""
    with socket.create_connection((address, listening.getsockname()[1]), 10) as _client:
        accepted, peer = listening.accept()
        with closing(accepted):
            yield peer_of(peer)


def test_everywhere_is_both_versions() -> None:
    """A pod of a cluster with IPv4, IPv6 or both is reached at its address; a client of IPv4 is counted as one."""
    with closing(listen(EVERYWHERE, 0)) as listening:
        with _accepted(listening, "127.0.0.1") as peer:
            assert peer == "127.0.0.1"
        with _accepted(listening, "::1") as peer:
            assert peer == "::1"


def test_the_manager_is_reached_everywhere() -> None:
    """The webhooks listen at all addresses unless one is given."""
    assert ManagerSettings(identity="m").host == EVERYWHERE


def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without IPv6, all addresses are those of IPv4."""

    class OnlyIpv4(socket.socket):
        def __init__(self, family: int, *rest: int) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest)

    monkeypatch.setattr(socket, "socket", OnlyIpv4)
    with closing(listen(EVERYWHERE, 0)) as listening:
        assert listening.getsockname()[0] == "0.0.0.0"
    with pytest.raises(
        OSError, match=r"can't listen on \[::1\]:0: Address family not supported by protocol; choose"
    ):
        listen("::1", 0)


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "https://127.0.0.1:9/x"), ("fd00::1", "https://[fd00::1]:9/x")]
)
def test_webhooks_at_an_address(host: str, url: str) -> None:
    """An address of either IP version is a valid URL in the registration."""
    assert Endpoint(host=host, port=0, local=True).config(9, "/x") == {"url": url}
