"""The cluster as an agent sees it: LANs, and the LANNodes of all nodes, which say which nodes are given up.

All but `live` is what watches brought, which may be late by more than a minute.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from lanloom.api.lan import LAN, LAN_NODES, LANS, LANEntry, LANNode, Mode
from lanloom.api.meta import Key
from lanloom.features.lan.agent.ports import Device
from lanloom.features.lan.rules.claims import age_of, claims_of, identity_claims
from lanloom.features.lan.rules.flood import is_silent
from lanloom.kube.informers import Informers
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Reader

_MODES: tuple[Mode, ...] = ("macvtap", "veth")


class ClusterView:
    """Read the stores of the agent's informers, which the process runs. `node` is its own."""

    def __init__(self, reader: Reader, informers: Informers, node: str) -> None:
        self._reader = reader
        self._lans = informers.get(
            LANS, optional=True, indexes={"uid": _uid, "claim": _claims, "joined": _joined}
        )
        # What nodes report concerns those alone that carry LANs: a LANNode that all follow is sent to all.
        self._reports = informers.get(
            LAN_NODES,
            optional=True,
            indexes={"lan": _reported, "spoke": _attached},
            from_cache=True,
            lazy=True,
        )
        # What is written next is compared with it, so it is never as old as others may be.
        self._own = informers.get(
            LAN_NODES, fields=f"metadata.name={node}", optional=True, title="own lannodes"
        )

    @property
    def is_synced(self) -> bool:
        """Whether all LANs and the node's own LANNode have been read once."""
        return self._lans.is_synced and self._own.is_synced

    @property
    def knows_nodes(self) -> bool:
        """Whether also the LANNodes of all nodes have been read once, if this node carries LANs."""
        return self.is_synced and self._reports.is_synced

    async def nodes_known(self) -> None:
        """Return when the LANNodes of all nodes have been read once."""
        await self._reports.synced(begun=True)

    def follow_nodes(self) -> None:
        """Follow the LANNodes of all nodes from now on, as is done from the first LAN that this node carries on."""
        self._reports.begin()

    def on_lan(self, handler: Callable[[str], None]) -> None:
        """Call `handler` with the uid of each LAN that changed."""
        self._lans.on_change(lambda old, new: _each(handler, _uids(old, new)))

    def on_peer(self, handler: Callable[[str], None]) -> None:
        """Call `handler` with the uid of each LAN whose nodes may have changed."""
        self._reports.on_change(lambda old, new: _each(handler, _changed(old, new)))

    def on_report(self, handler: Callable[[LANNode | None], None]) -> None:
        """Call `handler` with the node's own LANNode whenever it changed, None when it was deleted."""
        self._own.on_change(lambda _old, new: handler(new))

    def lan(self, uid: str) -> LAN | None:
        """Return the LAN of a uid."""
        return next(iter(self._lans.store.by("uid", uid)), None)

    async def live(self, key: Key, uid: str) -> LAN | None:
        """Return the LAN as the API server has it now; None where it is gone, which a watch may not have reported yet.

        What was the LAN's may be another one's by then. Raises KubeError.
        """
        found = await get_or_none(self._reader, LANS, key)
        return found if found is not None and found.metadata.uid == uid else None

    def named(self, namespace: str, name: str) -> LAN | None:
        """Return the LAN of a name."""
        return self._lans.store.get(Key(namespace, name))

    def lan_of(self, spoke: str) -> LAN | None:
        """Return the LAN that has a spoke; of several the one that the manager lets have it."""
        return min(self._lans.store.by("claim", f"spoke {spoke}"), key=age_of, default=None)

    def underlays(self, node: str) -> frozenset[str]:
        """Return the links that LANs name as the underlay of a node."""
        return frozenset(lan.spec.underlay(node) for lan in self._lans.store.items()) - {""}

    def claimants(self, lan: LAN) -> Iterator[LAN]:
        """Return LANs that claim something that this one claims, itself included."""
        return (other for claim in _claims(lan) for other in self._lans.store.by("claim", claim))

    def twins(self, lan: LAN) -> Iterator[LAN]:
        """Return LANs that would be one network with this one, itself included."""
        return (other for claim in identity_claims(lan) for other in self._lans.store.by("claim", claim))

    def joined(self) -> tuple[str, ...]:
        """Return the uids of the LANs that are joined to a bridge of the hosts."""
        return tuple(lan.metadata.uid for lan in self._lans.store.by("joined", "yes"))

    def is_joined(self, uid: str) -> bool:
        """Return whether a LAN is joined to a bridge of the hosts."""
        lan = self.lan(uid)
        return lan is not None and bool(_joined(lan))

    def with_uplinks(self) -> Iterator[LAN]:
        """Return the LANs that are to be joined to physical VLANs."""
        return (lan for lan in self._lans.store.by("joined", "yes") if lan.spec.uplink is not None)

    def devices(self) -> Mapping[str, Device]:
        """Return the devices of all LANs that are not being deleted, by resource."""
        devices = (
            Device(spoke, mode)
            for lan in self._lans.store.items()
            if not lan.metadata.is_deleting
            for spoke in lan.spec.spokes
            for mode in _MODES
        )
        return {device.resource: device for device in devices}

    def report(self) -> LANNode | None:
        """Return the node's own LANNode."""
        return next(iter(self._own.store.items()), None)

    def reports(self, uid: str) -> Iterator[LANNode]:
        """Return the LANNodes that list the LAN, but those of nodes that are given up."""
        return _live(self._reports.store.by("lan", uid))

    def users_of(self, spoke: str) -> Iterator[LANNode]:
        """Yield LANNodes with a spoke attached, also to a LAN that is gone or not known here.

        Those of nodes that are given up are left out.
        """
        return _live(self._reports.store.by("spoke", spoke))


def _live(reports: Iterable[LANNode]) -> Iterator[LANNode]:
    return (report for report in reports if not is_silent(report))


def _uid(lan: LAN) -> Iterable[str]:
    return (lan.metadata.uid,)


def _claims(lan: LAN) -> Iterable[str]:
    return dict.fromkeys(claims_of(lan))


def _joined(lan: LAN) -> Iterable[str]:
    return ("yes",) if lan.spec.host_bridge is not None or lan.spec.uplink is not None else ()


def _reported(report: LANNode) -> Iterable[str]:
    return [entry.uid for entry in report.status.lans]


def _attached(report: LANNode) -> Iterable[str]:
    return {spoke.name for entry in report.status.lans for spoke in entry.spokes}


def _uids(old: LAN | None, new: LAN | None) -> set[str]:
    return {lan.metadata.uid for lan in (old, new) if lan is not None}


def _changed(old: LANNode | None, new: LANNode | None) -> set[str]:
    """Return the LANs of which a report says something else than before about how to reach its node."""
    before, after = (
        {entry.uid: (_endpoint_of(entry), is_silent(report)) for entry in report.status.lans}
        if report is not None
        else {}
        for report in (old, new)
    )
    return {uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid)}


def _endpoint_of(entry: LANEntry) -> object:
    macs = frozenset(spoke.mac for spoke in entry.spokes if spoke.mac)
    return entry.vni, entry.port, entry.address, entry.mtu, macs, entry.uplink


def _each(handler: Callable[[str], None], uids: Iterable[str]) -> None:
    for uid in sorted(uids):
        handler(uid)
