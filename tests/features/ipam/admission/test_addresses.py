"""What the manager's watches say of addresses is what the NICs say."""

from random import Random
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.ipam import Network, Nic
from lanloom.api.meta import Key
from lanloom.features.ipam.reader import AddressReader, ipam_informers
from lanloom.features.ipam.rules.addresses import parse_address
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client, WatchEvent
from tests.features.ipam.admission.requests import holding, network, with_status

ADDRESSES = tuple(f"192.0.2.{last}" for last in range(1, 7))
NETWORKS = ("net1", "net2")
NAMES = ("a", "b", "c")
EVERY = tuple(map(parse_address, ADDRESSES))


class Watched:
    """The stores of a manager, and what the watches bring them."""

    def __init__(self) -> None:
        self.informers = ipam_informers(Informers(cast(Client, None), Random(1)))
        self._handlers: list[Any] = []
        self.informers.nics.on_change = self._handlers.append  # type: ignore[method-assign, assignment]
        self.reader = AddressReader(self.informers)
        self._version = 0

    def nic(self, name: str, place: str, ips: tuple[str, ...] | None) -> None:
        """A NIC holds these addresses of a network; None: it is gone."""
        self._version += 1
        body = holding(name, *(ips or ()), network=place)
        body["metadata"]["resourceVersion"] = str(self._version)
        item = msgspec.convert(body, Nic)
        change = self.informers.nics.store.apply(WatchEvent("DELETED" if ips is None else "MODIFIED", item))
        if change is not None:
            for handler in self._handlers:
                handler(change.old, change.new)

    def network(self, grants: list[dict[str, Any]]) -> None:
        """The network net1, with these grants."""
        body = with_status(network("net1"), grants=grants)
        self.informers.networks.store.apply(WatchEvent("ADDED", msgspec.convert(body, Network)))


CHANGES = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(NETWORKS),
    st.none() | st.sets(st.sampled_from(ADDRESSES), max_size=3),
)


@given(st.lists(CHANGES, max_size=25))
def test_holders_are_those_of_the_nics(changes: list[tuple[str, str, set[str] | None]]) -> None:
    """After any changes, each address is known to be held by the NIC that has it, and by no other."""
    watched = Watched()
    held: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name, place, wanted in changes:
        theirs = {ip for other, (where, ips) in held.items() if (other, where) != (name, place) for ip in ips}
        ips = None if wanted is None else tuple(sorted(wanted - theirs))
        watched.nic(name, place, ips)
        held.pop(name, None)
        if ips is not None:
            held[name] = (place, ips)
        for where in NETWORKS:
            expected = {
                parse_address(ip): Key("default", other)
                for other, (of, ips_of) in held.items()
                if of == where
                for ip in ips_of
            }
            assert watched.reader.context(where, "default", EVERY).holders == expected


def test_what_is_granted_is_held() -> None:
    """A grant counts until the NIC's own status does, and what can't be read is passed over."""
    watched = Watched()
    watched.network(
        [
            {"nic": "default/a", "uid": "1", "ips": ["192.0.2.1", "nonsense"]},
            {"nic": "default/b", "uid": "2", "ips": ["192.0.2.2"]},
        ]
    )
    watched.nic("c", "net1", ("192.0.2.2",))
    context = watched.reader.context("net1", "default", EVERY)
    assert context.network is not None
    assert context.holders == {EVERY[0]: Key("default", "a"), EVERY[1]: Key("default", "c")}
    assert watched.reader.context("net9", "default", EVERY).network is None
