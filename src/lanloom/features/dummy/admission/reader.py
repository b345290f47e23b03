"""The cluster as admission of isolated networks sees it without asking: the manager's stores.

They lag behind the API server by the length of a watch. What they allow may be allowed; before anybody is refused, what
the refusal rests on is read anew.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.dummy import DummyClusterNetwork
from lanloom.api.harvester import VlanConfig
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.dummy.manager import DummyInformers
from lanloom.features.dummy.rules.model import Settings, UserView


class StoreReader(Struct, frozen=True):
    """The cluster as a manager's informers see it."""

    informers: DummyInformers
    users: UserView
    read_settings: Callable[[], Settings]

    @property
    def settings(self) -> Settings:
        """What the cluster does not tell by itself."""
        return self.read_settings()

    def networks(self) -> Iterable[DummyClusterNetwork]:
        """Every DummyClusterNetwork."""
        return self.informers.dcns.store.items()

    def nad(self, key: Key) -> NetworkAttachmentDefinition | None:
        """One NAD."""
        return self.informers.nads.store.get(key)

    def configs(self) -> Iterable[VlanConfig]:
        """Every VlanConfig."""
        return self.informers.configs.store.items()

    def nodes(self) -> Iterable[Node]:
        """Every node."""
        return self.informers.nodes.store.items()
