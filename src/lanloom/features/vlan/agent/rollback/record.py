"""The checkpoint on disk: read once, written before it is acted on, validated because root-owned files come from it.

A record that can't be read, or that is another cluster's, is dropped: the agent then waits for the API server, as on a
new host. Nothing is taken over as it came. Names are computed again, and profiles are rendered again from what they
mean; so an older version's profiles come out as this version writes them.
"""

import asyncio
from collections.abc import Callable

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.bonds import BOND_MODES, UNTUNED, is_settings_of
from lanloom.api.harvester import MTU_MAX, MTU_MIN, TX_QUEUE_MAX, parse_mac
from lanloom.api.l3 import VID_MAX, VID_MIN, AnnotationError
from lanloom.features.vlan.agent.rollback.changes import BOOT_CONFIRM_SECONDS, Checkpoint
from lanloom.features.vlan.agent.rollback.revisions import NetworkRevision
from lanloom.features.vlan.rules.desired.names import is_cluster_network, is_link
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.features.vlan.rules.desired.node import interface_of
from lanloom.features.vlan.rules.desired.profile import read
from lanloom.features.vlan.rules.desired.uplink import LONGEST_MIIMON
from lanloom.node.errors import RecordError
from lanloom.node.ports import Host
from lanloom.node.vlanids import VlanIds, merge, subtract, vlan_ids

log = structlog.get_logger(__name__)

RECORD = "vlan-networks"
"""In `Host.state`: the checkpoint."""

ALIVE = "vlan-alive"
"""In `Host.runtime`: there since the agent's first start after a boot."""


class _Saved(Struct, frozen=True, kw_only=True, rename={"checkpoint": "memory"}):
    """The record. `began` is when the pending change began, in seconds since the epoch."""

    cluster: str
    checkpoint: Checkpoint
    began: float = 0.0


class CheckpointRecord:
    """One host's record. `now` gives seconds since the epoch; times in a Checkpoint are the loop's."""

    def __init__(self, host: Host, cluster: str, now: Callable[[], float]) -> None:
        self._state = host.state
        self._runtime = host.runtime
        self._cluster = cluster
        self._now = now
        self._written: Checkpoint | None = None

    async def load(self) -> Checkpoint | None:
        """Return the last checkpoint, or None. After a reboot a pending change begins again, with a longer timeout."""
        booted = await self._booted()
        try:
            content = await self._state.read(RECORD)
            if content is None:
                return None
            saved = msgspec.json.decode(content, type=_Saved)
        except (RecordError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("memory-dropped", error=str(error))
            return None
        if saved.cluster != self._cluster:
            log.warning("memory-dropped", error=f"it is that of the cluster {saved.cluster}")
            return None
        checkpoint = _validated(saved.checkpoint)
        if checkpoint is None:
            log.warning("memory-dropped", error="it holds a network that no agent would have made")
            return None
        self._written = self._resumed(checkpoint, saved.began, booted)
        return self._written

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, if it does not exist yet. Raises RecordError."""
        if checkpoint is self._written or checkpoint == self._written:
            return
        began = checkpoint.pending.began if checkpoint.pending else 0.0
        wall = self._now() - (asyncio.get_running_loop().time() - began) if checkpoint.pending else 0.0
        saved = _Saved(cluster=self._cluster, checkpoint=checkpoint, began=wall)
        await self._state.write(RECORD, msgspec.json.encode(saved))
        self._written = checkpoint

    def _resumed(self, checkpoint: Checkpoint, began: float, booted: bool) -> Checkpoint:
        now = asyncio.get_running_loop().time()
        if checkpoint.pending is None:
            return checkpoint
        if booted:
            return replace(
                checkpoint, pending=replace(checkpoint.pending, began=now, timeout=BOOT_CONFIRM_SECONDS)
            )
        elapsed = max(0.0, self._now() - began)
        return replace(checkpoint, pending=replace(checkpoint.pending, began=now - elapsed))

    async def _booted(self) -> bool:
        """Return whether the host was rebooted since an agent ran here."""
        try:
            if await self._runtime.read(ALIVE) is not None:
                return False
            await self._runtime.write(ALIVE, b"")
        except RecordError as error:
            log.warning("runtime-not-kept", error=str(error))
            return False
        return True


def _validated(checkpoint: Checkpoint) -> Checkpoint | None:
    """Return the checkpoint with every network validated; None where one is odd: part of it must not pass for all."""
    carried, fallback = _validated_revisions(checkpoint.carried), _validated_revisions(checkpoint.fallback)
    if carried is None or fallback is None:
        return None
    return replace(checkpoint, carried=carried, fallback=fallback)


def _validated_revisions(revisions: tuple[NetworkRevision, ...]) -> tuple[NetworkRevision, ...] | None:
    networks = [validated_network(revision.network) for revision in revisions]
    if len({revision.name for revision in revisions}) < len(revisions):
        return None
    known = [
        replace(revision, network=network)
        for revision, network in zip(revisions, networks, strict=True)
        if network
    ]
    return tuple(known) if len(known) == len(revisions) else None


def validated_network(network: NodeNetwork) -> NodeNetwork | None:
    """Return a network that was saved, as it may be applied; None where anything of it is odd.

    Then nothing that was saved should be applied at all: what is missing among the wanted networks is removed.
    """
    if not (_is_named_rightly(network) and _has_lawful_ids(network)):
        return None
    if not (_is_on_foreign_bridge(network) if network.foreign else _has_lawful_uplink(network)):
        return None
    interfaces = [_interface(item, network.cluster_network) for item in network.interfaces]
    known = tuple(item for item in interfaces if item is not None)
    if len(known) < len(interfaces) or vlan_ids(item.vid for item in known) != network.bridge_ids:
        return None
    return replace(network, interfaces=known)


def _is_named_rightly(network: NodeNetwork) -> bool:
    name = network.cluster_network
    return (
        is_cluster_network(name)
        and network.bridge == names.bridge_name(name)
        and network.bond == names.bond_name(name)
        and (network.foreign or name != names.MGMT)
        and (network.foreign or not network.delegated)
    )


def _has_lawful_ids(network: NodeNetwork) -> bool:
    vids = [item.vid for item in network.interfaces]
    return (
        _are_ids(network.bridge_ids)
        and _are_ids(network.uplink_ids)
        and not subtract(network.bridge_ids, network.uplink_ids)
        and vids == sorted(set(vids))
        and all(0 <= problem.vid <= VID_MAX for problem in network.problems)
    )


def _are_ids(ids: VlanIds) -> bool:
    return all(VID_MIN <= first <= last <= VID_MAX for first, last in ids) and merge(ids) == ids


def _is_on_foreign_bridge(network: NodeNetwork) -> bool:
    wanted = (network.nics, network.mode, network.miimon, network.mtu, network.tx_queue_length, network.mac)
    return wanted == ((), "", 0, 0, None, "") and network.settings == UNTUNED


def _has_lawful_uplink(network: NodeNetwork) -> bool:
    return (
        all(is_link(nic) for nic in network.nics)
        and network.mode in ("", *BOND_MODES)
        and (0 < network.miimon <= LONGEST_MIIMON or (network.miimon == 0 < network.settings.arp_interval))
        and is_settings_of(network.settings, network.mode, network.nics)
        and MTU_MIN <= network.mtu <= MTU_MAX
        and (network.tx_queue_length is None or 0 < network.tx_queue_length <= TX_QUEUE_MAX)
        and _is_mac(network.mac)
    )


def _is_mac(text: str) -> bool:
    try:
        return text in ("", parse_mac("mac", text))
    except AnnotationError:
        return text == ""


def _interface(item: Interface, cluster_network: str) -> Interface | None:
    profile = read(item.content)
    if profile is None or profile.cluster_network != cluster_network:
        return None
    found = replace(interface_of(profile, item.network), pooled=item.pooled)
    return found if replace(found, content=item.content) == item else None
