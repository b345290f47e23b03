"""The revision of each cluster network that a node carries: the present one, or still the last one that it had.

A network stays at its last revision while its rollout has not released the node, and where its present revision was
rolled back. A network that is gone is never held: what is deleted goes.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.features.vlan.rules.desired.holds import asked_sources
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.node.vlanids import render

Reason = Literal["", "Held", "RolledBack"]
"""The reason why a node does not carry the present revision; empty where it does, or where both are equal."""


class NetworkRevision(Struct, frozen=True, rename={"id": "revision"}):
    """A cluster network on a node, and the `id` (see `rules.rollout.revision`) of the configuration behind it."""

    network: NodeNetwork
    id: str = ""

    @property
    def name(self) -> str:
        """The cluster network."""
        return self.network.cluster_network

    @property
    def digest(self) -> str:
        """The digest of this revision on this node; revisions with different ids may share it."""
        return self.network.digest


class Desired(Struct, frozen=True):
    """The revisions that the cluster's objects ask for on the node, and the networks whose roll-out has released it."""

    revisions: tuple[NetworkRevision, ...]
    released: frozenset[str]


class Selection(Struct, frozen=True, kw_only=True):
    """The revision that the node carries of one network; not `present` where `reason` is set, None for nothing."""

    present: NetworkRevision
    carried: NetworkRevision | None
    reason: Reason = ""


def by_name(revisions: Iterable[NetworkRevision]) -> dict[str, NetworkRevision]:
    """Return the revisions by their cluster networks."""
    return {revision.name: revision for revision in revisions}


def select(
    present: Iterable[NetworkRevision],
    carried: Mapping[str, NetworkRevision],
    *,
    released: Container[str],
    rejected: Mapping[str, str],
    unknown: Container[str] = (),
) -> tuple[Selection, ...]:
    """Return one choice for each network that should be there now.

    `carried` are the revisions that the node has, `released` the networks whose present revision the node may apply,
    `rejected` the digests of revisions that were rolled back. `unknown` are networks that the node has in a revision
    that no checkpoint holds: they take the present one, because nothing else can be kept up.
    """
    return tuple(_selection(revision, carried, released, rejected, unknown) for revision in present)


def _selection(
    revision: NetworkRevision,
    carried: Mapping[str, NetworkRevision],
    released: Container[str],
    rejected: Mapping[str, str],
    unknown: Container[str],
) -> Selection:
    reason: Reason = ""
    if revision.name in rejected and rejected[revision.name] == revision.digest:
        reason = "RolledBack"
    elif revision.name not in released and revision.name not in unknown:
        reason = "Held"
    last = carried.get(revision.name)
    unchanged = reason == "Held" and last is not None and last.digest == revision.digest
    if not reason or unchanged:  # a change that is none on this node needs no turn in the roll-out
        return Selection(present=revision, carried=revision)
    return Selection(present=revision, carried=last, reason=reason)


def explanation(selection: Selection) -> str:
    """Explain a selection that has a reason to the user."""
    name = selection.present.name
    if selection.reason == "Held":
        carries = "its last configuration" if selection.carried else "no configuration of it"
        return f"the rollout of {name} has not reached this node yet; the node keeps {carries} until then"
    last = selection.carried.network if selection.carried else None
    return (
        "the node could not reach the API server after a change, and the change was "
        f"reverted: {difference(last, selection.present.network)}; correct the change, or delete this "
        "ClusterNetworkNode to retry it"
    )


def difference(old: NodeNetwork | None, new: NodeNetwork) -> str:
    """Return the change from one revision of a network to another, in a few words."""
    if old is None:
        return f"the cluster network {new.cluster_network} over {', '.join(new.nics) or 'no NIC'}"
    return "; ".join(_differences(old, new)) or "its description"


def _differences(old: NodeNetwork, new: NodeNetwork) -> Iterator[str]:
    if old.nics != new.nics:
        yield f"NICs {', '.join(old.nics) or 'none'} to {', '.join(new.nics) or 'none'}"
    if old.mode != new.mode:
        yield f"bond mode {old.mode} to {new.mode}"
    if old.mtu != new.mtu:
        yield f"MTU {old.mtu} to {new.mtu}"
    before, after = ({item.vid: item for item in network.interfaces} for network in (old, new))
    yield from (f"VLAN {vid}: {_address(after[vid])}" for vid in sorted(after.keys() - before.keys()))
    yield from (f"VLAN {vid} removed" for vid in sorted(before.keys() - after.keys()))
    yield from (
        f"VLAN {vid}: {_address(before[vid])} to {_address(after[vid])}"
        for vid in sorted(before.keys() & after.keys())
        if before[vid].content != after[vid].content
    )
    if old.uplink_ids != new.uplink_ids:
        yield f"VLAN ids of the uplink {render(old.uplink_ids) or 'none'} to {render(new.uplink_ids) or 'none'}"


def _address(item: Interface) -> str:
    return asked_sources(item, f"an address by {item.mode.upper()}")
