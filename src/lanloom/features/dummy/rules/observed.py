"""The observed state of a DummyClusterNetwork, and decisions: input and output of `rules.lifecycle`."""

from typing import Any, Literal

from msgspec import Struct

from lanloom.api.core import EventDraft, Node, Pod
from lanloom.api.dummy import DummyClusterNetwork, DummyClusterNetworkStatus
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.ipam import Network
from lanloom.api.lan import LAN
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DaemonSet
from lanloom.features.dummy.rules.model import Raw, Settings
from lanloom.features.dummy.rules.subnet import Ranges
from lanloom.nads.references import NadUse


class Made(Struct, frozen=True, kw_only=True):
    """The objects that have the label with the uid of the DummyClusterNetwork."""

    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    networks: tuple[Network, ...] = ()
    cluster_networks: tuple[ClusterNetwork, ...] = ()
    lans: tuple[LAN, ...] = ()


class Live(Struct, frozen=True, kw_only=True):
    """The result of a live read: the network's objects, read first, and the users of networks if requested."""

    made: Made
    users: NadUse | None = None


class Failure(Struct, frozen=True):
    """An action that was rejected at the last attempt: the plural of its resource, and the reason.

    `conflict` is true if an object of another owner is in the way.
    """

    plural: str
    message: str
    conflict: bool = False


class Observed(Struct, frozen=True, kw_only=True):
    """A DummyClusterNetwork and everything that its state depends on.

    `nad`, `network`, `lan` and `cluster_network` are the objects in the places of its own, whatever created them;
    `daemon_set` is its own in the proper place. `made` are its own objects, wherever they are; without `live` as the
    watches delivered them. `foreign` are the NADs of its spec and of its status that have another owner. `others` are
    all other DummyClusterNetworks, `lans` all LANs if it needs one, `configs` the VlanConfigs of its bridge's
    ClusterNetwork, `pods` those of its DaemonSets, `denial` why the API server refuses some, with the remedy, `ranges`
    the addresses in use by the cluster. `now` is in seconds since the epoch.
    """

    dcn: DummyClusterNetwork
    now: float
    settings: Settings
    users: NadUse
    others: tuple[DummyClusterNetwork, ...] = ()
    nad: NetworkAttachmentDefinition | None = None
    daemon_set: DaemonSet | None = None
    network: Network | None = None
    cluster_network: ClusterNetwork | None = None
    lan: LAN | None = None
    lans: tuple[LAN, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    foreign: frozenset[Key] = frozenset()
    made: Made = Made()
    nodes: tuple[Node, ...] = ()
    ranges: Ranges = Ranges()
    pods: tuple[Pod, ...] = ()
    denial: str = ""
    live: Live | None = None
    failure: Failure | None = None


class Create(Struct, frozen=True):
    """Create an object; an existing one of that name is left alone. `event` is recorded after it."""

    resource: Resource[Any]
    body: Raw
    event: EventDraft | None = None

    @property
    def key(self) -> Key:
        """Return the key of the created object."""
        meta = self.body["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])


class Change(Struct, frozen=True):
    """Patch an object; the patch names the version that it was computed for."""

    resource: Resource[Any]
    key: Key
    patch: Raw
    event: EventDraft | None = None


class Delete(Struct, frozen=True):
    """Delete the object of that uid, and of that version if one is given.

    If it may not be deleted (`or_release`), Lanloom's marks are removed from it instead.
    """

    resource: Resource[Any]
    key: Key
    uid: str
    or_release: bool = False
    version: str = ""
    event: EventDraft | None = None


Action = Create | Change | Delete

LiveRead = Literal["", "made", "users"]
"""What to read again before anything can be decided: what was made; that, and then who uses networks."""


REREAD_SECONDS = 2.0
"""When to ask the API server again about a user that the watches have not brought: they may never bring it."""


class Decision(Struct, frozen=True, kw_only=True):
    """The decision: write `status` if it differs, record the `events`, execute the `actions` in order.

    With a `live_read`, the decision is requested again with `Observed.live`, and nothing is done before. `wait` is
    after how many seconds to check again without an event, None for never.
    """

    status: DummyClusterNetworkStatus
    actions: tuple[Action, ...] = ()
    events: tuple[EventDraft, ...] = ()
    live_read: LiveRead = ""
    wait: float | None = None


def deletion(
    resource: Resource[Any], item: Object, *, or_release: bool = False, unchanged: bool = False
) -> Delete:
    """Return the deletion of exactly this object, only in the version that was read if it must be `unchanged`."""
    meta = item.metadata
    return Delete(resource, meta.key, meta.uid, or_release, meta.resource_version if unchanged else "")


def on_version(item: Object, **members: Any) -> Raw:
    """Return a patch of an object's metadata on the version that was read."""
    return {"metadata": {"resourceVersion": item.metadata.resource_version, **members}}
