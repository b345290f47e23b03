"""What is known of a DummyClusterNetwork, and what may be decided: the input and the output of `rules.lifecycle`."""

from typing import Any, Literal

from msgspec import Struct

from lanloom.api.core import EventDraft, Node, Pod
from lanloom.api.dummy import DummyClusterNetwork, DummyClusterNetworkStatus
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.ipam import Network
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DaemonSet
from lanloom.features.dummy.rules.model import Raw, Settings, UserView
from lanloom.features.dummy.rules.subnet import Ranges


class Made(Struct, frozen=True, kw_only=True):
    """What has the label with the uid of the DummyClusterNetwork."""

    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    networks: tuple[Network, ...] = ()
    cluster_networks: tuple[ClusterNetwork, ...] = ()


class Live(Struct, frozen=True, kw_only=True):
    """What the API server said a moment ago: what was made, read first, and who uses networks if that was asked."""

    made: Made
    users: UserView | None = None


class Failure(Struct, frozen=True):
    """An action that was refused when it was tried last: the plural of its resource, and why.

    `conflict` is true where somebody else's object is in the way.
    """

    plural: str
    message: str
    conflict: bool = False


class Observed(Struct, frozen=True, kw_only=True):
    """A DummyClusterNetwork and all that its state depends on.

    `nad`, `network` and `cluster_network` are what stands where its own would stand, whoever made it; `daemon_set` is
    its own at its proper place. `made` is what is its own, wherever it is; without `live` that is what the watches
    have brought. `foreign` are the NADs of its spec and of its status that are somebody else's. `others` are all other
    DummyClusterNetworks, `configs` the VlanConfigs of its bridge's ClusterNetwork, `pods` those of its DaemonSets,
    `ranges` what addresses the cluster uses. `now` is in seconds since the epoch.
    """

    dcn: DummyClusterNetwork
    now: float
    settings: Settings
    users: UserView
    others: tuple[DummyClusterNetwork, ...] = ()
    nad: NetworkAttachmentDefinition | None = None
    daemon_set: DaemonSet | None = None
    network: Network | None = None
    cluster_network: ClusterNetwork | None = None
    configs: tuple[VlanConfig, ...] = ()
    foreign: frozenset[Key] = frozenset()
    made: Made = Made()
    nodes: tuple[Node, ...] = ()
    ranges: Ranges = Ranges()
    pods: tuple[Pod, ...] = ()
    live: Live | None = None
    failure: Failure | None = None


class Create(Struct, frozen=True):
    """Make an object; one of that name that is there already is left alone. `event` is recorded after it."""

    resource: Resource[Any]
    body: Raw
    event: EventDraft | None = None

    @property
    def key(self) -> Key:
        """Where the object will be."""
        meta = self.body["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])


class Change(Struct, frozen=True):
    """Patch an object; the patch names the version that it was made for."""

    resource: Resource[Any]
    key: Key
    patch: Raw
    event: EventDraft | None = None


class Delete(Struct, frozen=True):
    """Delete the object of that uid, and of that version if one is given.

    If it may not go (`or_release`), our marks are taken off it instead.
    """

    resource: Resource[Any]
    key: Key
    uid: str
    or_release: bool = False
    version: str = ""
    event: EventDraft | None = None


Action = Create | Change | Delete

LiveRead = Literal["", "made", "users"]
"""What is to be read anew before anything can be decided: what was made; that, and then who uses networks."""


REREAD_SECONDS = 2.0
"""When to ask the API server again about a user whom the watches have not brought: they may never bring him."""


class Decision(Struct, frozen=True, kw_only=True):
    """What to do: write `status` if it differs, record the `events`, execute the `actions` in order.

    With a `live_read` the decision is asked for again with `Observed.live`, and nothing is done before. `wait` are the
    seconds after which to look again though nothing happens, None for never.
    """

    status: DummyClusterNetworkStatus
    actions: tuple[Action, ...] = ()
    events: tuple[EventDraft, ...] = ()
    live_read: LiveRead = ""
    wait: float | None = None


def deletion(
    resource: Resource[Any], item: Object, *, or_release: bool = False, unchanged: bool = False
) -> Delete:
    """The deletion of exactly this object, only as it was read if it must be `unchanged`."""
    meta = item.metadata
    return Delete(resource, meta.key, meta.uid, or_release, meta.resource_version if unchanged else "")


def on_version(item: Object, **members: Any) -> Raw:
    """A patch of an object's metadata on the version that was read."""
    return {"metadata": {"resourceVersion": item.metadata.resource_version, **members}}
