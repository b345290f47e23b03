"""What is watched of LANs and of what is made for them, and by what it is looked up."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from msgspec import Struct

from lanloom.api.core import NODES, Node
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LAN, LAN_NODES, LANS, UID_LABEL, LANNode
from lanloom.api.lannads import spokes_named
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.lan.rules.claims import claims_of
from lanloom.features.lan.rules.nads import nads_of_spoke, owner_of
from lanloom.features.lan.rules.removal import admitted
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers

BY_UID = "lan-uid"
"""LANs by their own uid; NADs and Networks by that of the LAN that they were made for; LANNodes by those of the LANs in
them."""

BY_SPOKE = "lan-spoke"
"""NADs by the spokes that they name, whatever made them."""

BY_UNDERLAY = "lan-underlay"
"""LANs by the underlay links that they name."""

BY_CLAIM = "lan-claim"
"""LANs by what only one LAN may have (`claims_of`)."""


class LanInformers(Struct, frozen=True):
    """What the manager and its webhooks watch. The kinds of LANs may be absent from a cluster."""

    lans: Informer[LAN]
    lan_nodes: Informer[LANNode]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    networks: Informer[Network]

    def all(self) -> tuple[Informer[Any], ...]:
        """Return every informer; a view is whole when each is synced."""
        return (self.lans, self.lan_nodes, self.nads, self.nodes, self.networks)

    def of_uid(self, uid: str) -> LAN | None:
        """Return the LAN of that uid."""
        return next(iter(self.lans.store.by(BY_UID, uid)), None) if uid else None

    def claimants(self, lan: LAN) -> tuple[LAN, ...]:
        """Return every LAN that claims something that this one claims, itself included."""
        store = self.lans.store
        found = (other for claim in claims_of(lan) for other in store.by(BY_CLAIM, claim))
        return tuple({other.metadata.key: other for other in found}.values())

    def with_spokes(self, spokes: Iterable[str]) -> tuple[LAN, ...]:
        """Return every LAN that has one of these spokes."""
        return tuple(lan for spoke in spokes for lan in self.lans.store.by(BY_CLAIM, f"spoke {spoke}"))

    def nads_of_others(self, lan: LAN, spokes: Iterable[str]) -> frozenset[Key]:
        """Return the NADs of others that name one of these spokes, as far as the LAN admits them."""
        return admitted(lan, (nad for spoke in spokes for nad in self.nads.store.by(BY_SPOKE, spoke)))

    def nads_for(self, lan: LAN, spokes: Collection[str]) -> frozenset[Key]:
        """Return the NADs by which users come to spokes of a LAN.

        They are its own, made or yet to be made, and those of others.
        """
        own = (key for spoke in spokes for key in nads_of_spoke(lan, spoke))
        return self.nads_of_others(lan, spokes).union(own)

    def carrying(self, uid: str) -> tuple[LANNode, ...]:
        """Return the reports of nodes that carry a LAN."""
        return self.lan_nodes.store.by(BY_UID, uid)


def lan_informers(informers: Informers) -> LanInformers:
    """Return the informers, with their indexes."""
    return LanInformers(
        lans=informers.get(
            LANS,
            indexes={
                BY_UID: lambda item: (item.metadata.uid,),
                BY_CLAIM: lambda item: set(claims_of(item)),
                BY_UNDERLAY: lambda item: {item.spec.default_vxlan_dev, *item.spec.vxlan_dev_map.values()},
            },
            optional=True,
        ),
        lan_nodes=informers.get(LAN_NODES, indexes={BY_UID: _carried}, optional=True),
        nads=informers.get(NADS, indexes={BY_UID: _owner, BY_SPOKE: spokes_named}),
        nodes=informers.get(NODES),
        networks=informers.get(NETWORKS, indexes={BY_UID: _made_for}),
    )


def _carried(item: LANNode) -> Iterable[str]:
    return {entry.uid for entry in item.status.lans}


def _made_for(item: Object) -> Iterable[str]:
    uid = item.metadata.labels.get(UID_LABEL)
    return (uid,) if uid else ()


def _owner(item: Object) -> Iterator[str]:
    if uid := owner_of(item.metadata):
        yield uid
