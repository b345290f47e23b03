"""The networks that this process has taken over in one term as leader, and the writes of their objects.

A network is taken over by raising its epoch, on the version that was read. From then on whatever its former allocator
still writes to the network's object is refused, because it does so on an older version.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from msgspec.structs import replace

from lanloom.api.ipam import (
    FINALIZER,
    NETWORKS,
    NICS,
    Allocator,
    Network,
    NetworkStatus,
    Nic,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.manager.allocation import AllocationState
from lanloom.features.ipam.manager.livenics import LiveNics, NicList
from lanloom.features.ipam.reader import BY_NETWORK, IpamInformers, networks_of
from lanloom.kube.errors import KubeError, NotFound, ServerError, TransportError
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

RETAKE_SECONDS = 20.0
"""After this long a network that another allocator has taken is taken back, should we still lead then.

The other one may be a former leader that was slow, and it has learned of its fall by then. If it is the new leader, we
have learned of ours.
"""

CONFIRM_SECONDS = 5.0
"""After this long a NIC that was listed and that the watch has not brought is read live."""

_CLAIM_AGAIN = (1.0, 2.0, 4.0)
"""The pauses in seconds before claims that failed are repeated."""

_AT_ONCE = 16
"""So many networks are claimed at the same time."""


class NetworkAllocation:
    """One network in one term: owns its allocation state, and writes its status and finalizers.

    `state` is None before the take-over, and after another allocator took the network.
    """

    def __init__(self, name: str, client: Client, informers: IpamInformers, identity: str) -> None:
        self.name = name
        self.state: AllocationState | None = None
        self._client = client
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._identity = identity
        self._newest: Network | None = None
        self._retake_at = -math.inf
        self._unconfirmed: dict[tuple[str, str], float] = {}

    def newest(self, stored: Network) -> Network:
        """Return the newer one of the stored object and the one that the API server returned last."""
        known = self._newest
        return stored if known is None else max(stored, known, key=lambda item: item.metadata.version)

    async def reread(self) -> Network:
        """Return the network as the API server has it now. Raises KubeError."""
        return self._remember(await self._client.get(NETWORKS, self.name))

    def current(self, network: Network) -> AllocationState | None:
        """Return the state, if the network is still ours."""
        state = self.state
        if state is None:
            return None
        if state.network.metadata.uid == network.metadata.uid:
            state.observe_network(network)
            present = state.network.status.allocator
            if present == Allocator(holder=self._identity, epoch=state.epoch):
                return state
            log.warning(
                "network-taken-by-another", network=self.name, holder=present.holder, epoch=present.epoch
            )
            self._retake_at = asyncio.get_running_loop().time() + RETAKE_SECONDS
        self.state = None
        return None

    def retake_in(self) -> float:
        """Return for how many seconds the network is left to another allocator; 0 or less if it is not."""
        return self._retake_at - asyncio.get_running_loop().time()

    async def claim(self, network: Network, status: NetworkStatus | None = None) -> Network:
        """Raise the epoch, so that no other allocator can grant anything any more. Raises KubeError.

        The rest of `status` is written with it.
        """
        network = await self.ensure_finalizer(network)
        mine = Allocator(holder=self._identity, epoch=network.status.allocator.epoch + 1)
        claimed = replace(status or network.status, allocator=mine)
        return await self.write_status(network, struct_diff(network.status, claimed))

    def open(self, network: Network, live: NicList) -> AllocationState:
        """Build the state of a network that was claimed before its NICs were read.

        That they are later than the claim is what the proof needs, and not that they are of one moment: what happened
        after the claim to one that was read later, such as that it was deleted, is no write of a former allocator that
        could still come. `live.version` is that of the list in which all of them were looked for.
        """
        store = self._informers.nics.store
        listed = live.nics.get(self.name, ())
        watched = [store.get(item.metadata.key) or item for item in listed]
        nics = (
            stored if stored.metadata.version == item.metadata.version else item
            for item, stored in zip(listed, watched, strict=True)
        )  # equal objects are kept in memory once
        state = self.state = AllocationState(network, nics, live.version)
        for nic in (*watched, *store.by(BY_NETWORK, self.name)):
            state.observe(nic)
        self._expect(state.identities())
        log.info("network-taken-over", network=self.name, epoch=state.epoch, nics=state.size)
        return state

    def observe(self, nic: Nic) -> None:
        """Take in a NIC that the watch brought."""
        if self.state is not None:
            self.state.observe(nic)

    def remove(self, nic: Nic) -> bool:
        """Take in that a NIC is gone; whether it was known, perhaps from a list only."""
        if self.state is None:
            return False
        key = str(nic.metadata.key)
        known = self.state.uid_of(key) == nic.metadata.uid
        self.state.remove(key, nic.metadata.uid)
        if later := self.state.uid_of(key):
            # A namesake that was not known from the watch; should it be gone too, the watch need not bring that.
            self._expect({(key, later)})
        return known

    async def confirm(self, state: AllocationState) -> float | None:
        """Read NICs live that the watch is slow to bring; in how many seconds to do so, if that is not now.

        They may have gone before the watch could bring them, and then it never does. Raises KubeError.
        """
        waiting, now = self._unconfirmed, asyncio.get_running_loop().time()
        present = {(key, uid) for key, uid in waiting if state.uid_of(key) == uid}
        for item in waiting.keys() - self._unseen(present):
            del waiting[item]
        for (key, uid), since in sorted(waiting.items()):
            if since + CONFIRM_SECONDS <= now:
                await self.reread_nic(state, key, uid)
                if waiting.get((key, uid)) == since:
                    del waiting[key, uid]
        return min((since + CONFIRM_SECONDS - now for since in waiting.values()), default=None)

    async def reread_nic(self, state: AllocationState, key: str, uid: str) -> None:
        """Take in how a NIC is now. Raises KubeError."""
        namespace, _, name = key.partition("/")
        try:
            found = await self._client.get(NICS, name, namespace)
        except NotFound as error:
            if not error.is_of(name):
                raise
            state.remove(key, uid)
            return
        if found.metadata.uid != uid:
            state.remove(key, uid)
        state.observe(found)
        self._expect({(key, found.metadata.uid)})

    async def ensure_finalizer(self, network: Network) -> Network:
        """Keep a network as long as its addresses are owned. Raises KubeError."""
        meta = network.metadata
        if FINALIZER in meta.finalizers or meta.is_deleting:
            return network
        return await self._put_finalizers(network, (*meta.finalizers, FINALIZER))

    async def remove_finalizer(self, network: Network) -> None:
        """Release a network that is being deleted. Raises KubeError."""
        left = [item for item in network.metadata.finalizers if item != FINALIZER]
        if left != list(network.metadata.finalizers):
            await self._put_finalizers(network, left)

    async def write_status(self, network: Network, patch: Mapping[str, Any]) -> Network:
        """Patch the status, if the network is still the one that is known. Raises Conflict."""
        body = {"metadata": _version_of(network), "status": patch}
        return self._remember(await self._statuses.patch(NETWORKS, self.name, body))

    async def _put_finalizers(self, network: Network, finalizers: Sequence[str]) -> Network:
        body = {"metadata": {**_version_of(network), "finalizers": list(finalizers)}}
        return self._remember(await self._client.patch(NETWORKS, self.name, body))

    def _remember(self, network: Network) -> Network:
        """Remember an answer that is newer than what the watch has brought."""
        if self._newest is None or self._newest.metadata.version < network.metadata.version:
            self._newest = network
        return network

    def _expect(self, nics: set[tuple[str, str]]) -> None:
        """Expect the watch to bring NICs (key and uid) that it has not brought yet."""
        now = asyncio.get_running_loop().time()
        for item in self._unseen(nics):
            self._unconfirmed[item] = now

    def _unseen(self, nics: set[tuple[str, str]]) -> set[tuple[str, str]]:
        known = {
            (key, found.metadata.uid)
            for key, _ in nics
            if (found := self._informers.nics.store.get(Key(*key.split("/")))) is not None
        }
        return nics - known


class AllocatorTerm:
    """The allocations of all networks in one term as leader. `identity` is this process's own."""

    def __init__(self, client: Client, informers: IpamInformers, identity: str) -> None:
        self._client = client
        self._informers = informers
        self._identity = identity
        self._live = LiveNics(client, informers.nics.store)
        self._allocations: dict[str, NetworkAllocation] = {}

    def clear(self) -> None:
        """Forget everything: what was known in one term is worth nothing in the next."""
        self._allocations.clear()

    def forget(self, name: str) -> None:
        """Forget a network that is gone, or whose state is no longer to be trusted."""
        self._allocations.pop(name, None)

    def allocation(self, name: str) -> NetworkAllocation:
        """Return the allocation of a network; a new one without a state where there is none yet."""
        found = self._allocations.get(name)
        if found is None:
            found = NetworkAllocation(name, self._client, self._informers, self._identity)
            self._allocations[name] = found
        return found

    def state_of(self, name: str) -> AllocationState | None:
        """Return the state of a network that was taken over."""
        found = self._allocations.get(name)
        return found.state if found is not None else None

    def epoch_of(self, name: str) -> int:
        """Return the epoch of a network, as far as is known."""
        state = self.state_of(name)
        if state is not None:
            return state.epoch
        stored = self._informers.networks.store.get(Key("", name))
        return stored.status.allocator.epoch if stored is not None else 0

    def nic_changed(self, old: Nic | None, new: Nic | None) -> set[str]:
        """Take in what the watch brought of a NIC; the networks that it matters to."""
        names = {name for item in (old, new) if item is not None for name in networks_of(item)}
        key = str(new.metadata.key) if new is not None else ""
        # All states are asked, because a network that a NIC was in between two states is in neither of them.
        for name, allocation in self._allocations.items():
            gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
            if old is not None and gone and allocation.remove(old):
                names.add(name)
            state = allocation.state
            if new is not None and state is not None and (name in names or state.has_known(key)):
                allocation.observe(new)
                names.add(name)
        return names

    async def find(self, name: str) -> Network | None:
        """Return the newest known object of a network. Asks the API server before it says that there is none."""
        stored = self._informers.networks.store.get(Key("", name))
        if stored is not None:
            return self.allocation(name).newest(stored)
        return await self.reread(name)

    async def reread(self, name: str) -> Network | None:
        """Return a network as the API server has it now, None if it is gone. Raises KubeError."""
        try:
            return await self.allocation(name).reread()
        except NotFound as error:
            if not error.is_of(name):
                raise
            self.forget(name)
            return None

    def has_nics(self, name: str) -> bool:
        """Return whether a NIC is known that has to do with a network."""
        return self._informers.nics.store.has(BY_NETWORK, name)

    async def take_over(self, network: Network, status: NetworkStatus | None = None) -> AllocationState:
        """Claim a network, and only then read which NIC owns what: the order is the proof. Raises KubeError.

        `status` is written with the claim.
        """
        allocation = self.allocation(network.metadata.name)
        network = await allocation.claim(network, status)
        return allocation.open(network, await self._live.read((allocation.name,)))

    async def take_all(self, networks: Iterable[Network]) -> None:
        """Take many networks over with one list of NICs. Those that can't be taken now are left for another time."""
        claimed = await self._claim_all(networks)
        if not claimed:
            return
        try:
            live = await self._live.read([network.metadata.name for network in claimed])
        except KubeError:
            return
        for network in claimed:
            if self.state_of(network.metadata.name) is None:
                self.allocation(network.metadata.name).open(network, live)
                await asyncio.sleep(0)  # a lease must be renewed meanwhile, and webhooks answered

    async def _claim_all(self, networks: Iterable[Network]) -> list[Network]:
        """Claim networks, and return those that could be.

        What fails with an error of the server is repeated: as long as a webhook is called at a leader that has died,
        every claim fails, and networks that are claimed later one by one take a list of all NICs each.
        """
        slots = asyncio.Semaphore(_AT_ONCE)
        claimed: list[Network] = []
        left: list[Network] = []

        async def claim(network: Network) -> None:
            async with slots:
                allocation = self.allocation(network.metadata.name)
                try:
                    claimed.append(await allocation.claim(allocation.newest(network)))
                except (ServerError, TransportError):
                    left.append(network)
                except KubeError:
                    pass

        await asyncio.gather(*map(claim, networks))
        for pause in _CLAIM_AGAIN:
            if not left:
                break
            await asyncio.sleep(pause)
            again, left = left, []
            await asyncio.gather(*map(claim, again))
        return claimed


def _version_of(network: Network) -> dict[str, str]:
    return {"resourceVersion": network.metadata.resource_version}
