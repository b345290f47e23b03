"""The desired state of this node, from the informers' stores; computed anew only when they change."""

from collections.abc import Mapping

from lanloom.api.clusternetworknode import Management
from lanloom.api.core import ObjectReference
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.agent.rollback.revisions import Desired, NetworkRevision
from lanloom.features.vlan.informers import AgentInformers
from lanloom.features.vlan.mode import Neighbour
from lanloom.features.vlan.rules.desired import node_networks
from lanloom.features.vlan.rules.foreign import Added
from lanloom.features.vlan.rules.plan import carried_networks
from lanloom.features.vlan.rules.reserved import management
from lanloom.features.vlan.rules.rollout import may_carry, revision
from lanloom.kube.events import reference
from lanloom.node.ports import LinkState


class DesiredState:
    """The desired state of one node. `cluster` tells this cluster's profiles from another's."""

    def __init__(self, node: str, cluster: str, informers: AgentInformers, neighbour: Neighbour) -> None:
        self._node = node
        self._cluster = cluster
        self._neighbour = neighbour
        self._informers = informers
        self._cached: tuple[frozenset[str], Management | None, Desired] | None = None
        informers.cluster_networks.on_change(self._forget)
        informers.configs.on_change(self._forget)
        informers.nads.on_change(self._forget)
        informers.harvester.on_change(self._forget)

    def get(self, observed: LinkState, files: Mapping[str, bytes], added: Mapping[str, Added]) -> Desired:
        """Return the present desired state of a node with this observed state."""
        carried, own = carried_networks(observed, files, added), management(observed, files)
        if self._cached is None or self._cached[:2] != (carried, own):
            self._cached = (carried, own, self._compute(carried, own))
        return self._cached[2]

    def nad(self, title: str) -> ObjectReference | None:
        """Return the reference to a network (`namespace/name`) for an Event, if it is known."""
        namespace, _, name = title.partition("/")
        item = self._informers.nads.store.get(Key(namespace, name))
        return reference(NADS, item) if item is not None else None

    def _forget(self, _old: Object | None, _new: Object | None) -> None:
        self._cached = None

    def _compute(self, carried: frozenset[str], own: Management | None) -> Desired:
        stores = self._informers
        networks = {item.metadata.name: item for item in stores.cluster_networks.store.items()}
        wanted = node_networks(
            self._node,
            self._cluster,
            networks.values(),
            stores.configs.store.items(),
            stores.nads.store.items(),
            carried,
            own,
            beside=self._neighbour.is_beside(),
        )
        revisions = tuple(
            NetworkRevision(item, self._revision(networks[item.cluster_network])) for item in wanted
        )
        released = (
            revision.name
            for revision in revisions
            if may_carry(networks[revision.name], self._node, revision.id)
        )
        return Desired(revisions, frozenset(released))

    def _revision(self, network: ClusterNetwork) -> str:
        name = network.metadata.name
        return revision(
            network.metadata.annotations,
            [item for item in self._informers.configs.store.items() if item.spec.cluster_network == name],
            [item for item in self._informers.nads.store.items() if cluster_network_of(item) == name],
        )
