"""What the cluster's objects want of this node, from the informers' stores; computed anew only when they change."""

from collections.abc import Mapping

from msgspec import Struct

from lanloom.api.core import ObjectReference
from lanloom.api.harvester import ClusterNetwork, Management, VlanConfig, VlanStatus
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.kube.events import reference
from lanloom.kube.informer import Informer
from lanloom.node.ports import LinkState
from lanloom.vlan.rules.desired import node_networks
from lanloom.vlan.rules.forms import Form
from lanloom.vlan.rules.management import Added, management
from lanloom.vlan.rules.plan import carried_networks
from lanloom.vlan.rules.rollout import may_carry, revision


class AgentInformers(Struct, frozen=True):
    """What the agent watches. `statuses` are those of its own node only."""

    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    nads: Informer[NetworkAttachmentDefinition]
    statuses: Informer[VlanStatus]

    def all(
        self,
    ) -> tuple[
        Informer[ClusterNetwork]
        | Informer[VlanConfig]
        | Informer[NetworkAttachmentDefinition]
        | Informer[VlanStatus],
        ...,
    ]:
        """Every informer, to be run."""
        return (self.cluster_networks, self.configs, self.nads, self.statuses)


class Present(Struct, frozen=True):
    """What the node should carry, and the networks of that whose roll-out has released it."""

    forms: tuple[Form, ...]
    released: frozenset[str]


class Wanted:
    """The wishes for one node. `cluster` tells this cluster's profiles from another's."""

    def __init__(self, node: str, cluster: str, informers: AgentInformers) -> None:
        self._node = node
        self._cluster = cluster
        self._informers = informers
        self._cached: tuple[frozenset[str], Management | None, Present] | None = None
        informers.cluster_networks.on_change(self._forget)
        informers.configs.on_change(self._forget)
        informers.nads.on_change(self._forget)

    def present(self, observed: LinkState, files: Mapping[str, bytes], added: Added) -> Present:
        """What the objects say now, where the node has what was observed."""
        carried, own = carried_networks(observed, files, added), management(observed, files)
        if self._cached is None or self._cached[:2] != (carried, own):
            self._cached = (carried, own, self._compute(carried, own))
        return self._cached[2]

    def nad(self, title: str) -> ObjectReference | None:
        """What an Event about a network (`namespace/name`) points at, if it is known."""
        namespace, _, name = title.partition("/")
        item = self._informers.nads.store.get(Key(namespace, name))
        return reference(NADS, item) if item is not None else None

    def _forget(self, _old: Object | None, _new: Object | None) -> None:
        self._cached = None

    def _compute(self, carried: frozenset[str], own: Management | None) -> Present:
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
        )
        forms = tuple(Form(item, self._revision(networks[item.cluster_network])) for item in wanted)
        released = (form.name for form in forms if may_carry(networks[form.name], self._node, form.revision))
        return Present(forms, frozenset(released))

    def _revision(self, network: ClusterNetwork) -> str:
        name = network.metadata.name
        return revision(
            network.metadata.annotations,
            [item for item in self._informers.configs.store.items() if item.spec.cluster_network == name],
            [item for item in self._informers.nads.store.items() if cluster_network_of(item) == name],
        )
