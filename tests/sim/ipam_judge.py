"""What must hold of addresses: at every write that no two NICs own one, and in the end that none is lost."""

from collections.abc import Iterator

import msgspec

from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    Nic,
)
from lanloom.features.ipam.manager.allocation import AllocationState
from lanloom.features.ipam.manager.decisions import decide
from lanloom.features.ipam.rules.addresses import find_addresses, whole
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.state import is_refused, is_satisfied, ledger_of
from lanloom.refusals import Malformed
from lanloom_embedded.engine.storage import Change
from tests.harness.conditions import stale
from tests.sim.ipam import IpamCluster

_NETWORK, _NIC = msgspec.json.Decoder(Network), msgspec.json.Decoder(Nic)


class Verifier:
    """Looks at every write, in the order in which they are committed."""

    def __init__(self, cluster: IpamCluster) -> None:
        self._cluster = cluster
        self._nics: dict[str, Nic] = {}
        self._networks: dict[str, Network] = {}
        self.harm: list[str] = []
        self.given = 0
        cluster.engine.ledger.listen(self._see)

    def _see(self, change: Change) -> None:
        key = str(change.key)
        if change.resource.plural == NETWORKS.plural:
            self._networks.pop(key, None)
            if change.after is not None:
                self._networks[key] = _NETWORK.decode(change.after.data)
        elif change.resource.plural == NICS.plural:
            self._take_nic(key, change)
        else:
            return
        for name in sorted({item.status.network for item in self._nics.values()} | self._networks.keys()):
            self._judge(name, change.version)

    def _take_nic(self, key: str, change: Change) -> None:
        old = self._nics.pop(key, None)
        if change.after is not None:
            new = self._nics[key] = _NIC.decode(change.after.data)
            if new.status.ips != (old.status.ips if old is not None else ()):
                self.given += 1
                self._cluster.note(f"  {key} has {new.status.ips} of {new.status.network}")

    def _judge(self, name: str, version: int) -> None:
        owners: dict[str, str] = {}
        for key, address in self._owned(name):
            other = owners.setdefault(address, key)
            if other != key:
                self.harm.append(f"v{version}: {address} of {name} belongs to {other} and to {key}")
                self._cluster.note(self.harm[-1])

    def _owned(self, name: str) -> Iterator[tuple[str, str]]:
        """NICs (key and uid) and what they own in a network, by status or by grant."""
        alive = {f"{key} {item.metadata.uid}": item for key, item in self._nics.items()}
        for title, item in alive.items():
            if item.status.network == name:
                yield from ((title, address) for address in item.status.ips)
        network = self._networks.get(name)
        for grant in network.status.grants if network is not None else ():
            title = f"{grant.nic} {grant.uid}"
            if title in alive:
                yield from ((title, address) for address in grant.ips)


async def complaints(cluster: IpamCluster) -> list[str]:
    """Everything that is not as it should be when all is quiet."""
    networks = {item.metadata.name: item for item in (await cluster.admin.list(NETWORKS)).items}
    nics = (await cluster.admin.list(NICS)).items
    found = [text for item in nics for text in _nic_complaints(item, networks.get(item.spec.network), nics)]
    for network in networks.values():
        found += _network_complaints(network, nics, cluster)
    return found + await stale(cluster.admin, NETWORKS, NICS)


def _nic_complaints(nic: Nic, network: Network | None, nics: tuple[Nic, ...]) -> Iterator[str]:
    key = nic.metadata.key
    if nic.metadata.deletion_timestamp is not None:
        yield f"{key} is still there"
    elif network is None:
        if nic.spec.network and not is_refused(nic):
            yield f"{key} has not been told that its network is missing: {nic.status}"
        elif not nic.spec.network and nic.status.ips:
            yield f"{key} has addresses without a network"
    elif is_satisfied(nic):
        return
    elif not is_refused(nic):
        yield f"{key} waits: {nic.status}"
    elif (ledger := _ledger(network, nics)) is not None:
        held = find_addresses(nic.status.ips) if nic.status.network == network.metadata.name else ()
        again = decide(ledger, nic, held, None)
        if again.operation is not None:
            again.operation.abort()
        if again.ips is not None and network.metadata.deletion_timestamp is None:
            yield f"{key} was refused but could have {again.ips}: {nic.status}"


def _network_complaints(network: Network, nics: tuple[Nic, ...], cluster: IpamCluster) -> Iterator[str]:
    name = network.metadata.name
    if network.status.grants:
        yield f"{name} has grants that nobody settles: {network.status.grants}"
    holders = [item for item in nics if item.status.network == name and item.status.ips]
    if network.metadata.deletion_timestamp is not None and not holders:
        yield f"{name} is still there"
    ledger = _ledger(network, nics)
    for manager in cluster.leaders.values():
        state = manager._term.state_of(name)
        if state is None:
            yield f"{name} has nobody who looks after it"
        elif ledger is not None and _all(state.ledger) != _all(ledger):
            yield f"{name}: the live ledger is {_all(state.ledger)}, and rebuilt {_all(ledger)}"
        elif ledger is not None:
            yield from _counts(network, state, ledger)


def _counts(network: Network, state: AllocationState, ledger: Ledger) -> Iterator[str]:
    usages = [ledger.usage(pool) for pool in ledger.network.pools()]
    expected = tuple(
        str(sum(getattr(usage, field) for usage in usages)) for field in ("size", "used", "free")
    )
    status = network.status
    if (status.size, status.used, status.free) != expected:
        yield f"{state.name}: counts are {status.size, status.used, status.free}, and should be {expected}"


def _ledger(network: Network, nics: tuple[Nic, ...]) -> Ledger | None:
    try:
        return ledger_of(network, nics)
    except Malformed:
        return None


def _all(ledger: Ledger) -> list[tuple[int, str]]:
    return [item for version in (4, 6) for item in ledger.owned_in(whole(version))]
