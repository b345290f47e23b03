"""What admission rejects of DummyClusterNetworks, VlanConfigs, and the NADs of isolated networks.

A network may not take the place of another object. Its NAD follows from the network, for every writer.
"""

from collections.abc import Iterable, Iterator, Sequence

from lanloom.api.dummy import (
    ADMITTED,
    DRAINING,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.harvester import VlanConfig
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import links_of
from lanloom.features.dummy.rules.model import Isolated, is_ours, owner_of
from lanloom.features.dummy.rules.objects import implied_cluster_network, is_as_wanted, uplink_fault
from lanloom.features.dummy.rules.spec import parse
from lanloom.features.dummy.rules.subnet import Ranges, overlaps
from lanloom.nads.guard import Reservation
from lanloom.nads.references import User
from lanloom.refusals import Denied, Malformed, titles_for
from lanloom.text import listed


def concerns(new: NetworkAttachmentDefinition | None, old: NetworkAttachmentDefinition | None) -> bool:
    """Return whether a request is about a NAD that belongs to an isolated network, or will."""
    return any(item is not None and owner_of(item) for item in (new, old))


def check_foreign_nad(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    networks: Iterable[DummyClusterNetwork],
) -> None:
    """Check that a NAD of another owner takes no place of an isolated network, nor lets others in. Raises Denied."""
    bridges = links_of(new) - (links_of(old) if old is not None else frozenset())
    for item in networks:
        if item.bridge_name in bridges and not item.spec.admits(new.metadata.namespace):
            raise Denied(
                f"{_title(new)}: spec.config: bridge {item.bridge_name} is an isolated network's: "
                f"{not_admitted(item, new.metadata.namespace)}"
            )
        if old is None and item.spec.nad == new.metadata.key and not item.metadata.is_deleting:
            raise Denied(
                f"{_title(new)}: metadata.name: DummyClusterNetwork {item.metadata.name} reserves this name for "
                "its own NAD; choose another name, or delete the DummyClusterNetwork first"
            )


def leads_to(key: Key, nad: NetworkAttachmentDefinition | None, network: DummyClusterNetwork) -> bool:
    """Return whether a NAD of that key attaches to a network: as its own, or at its bridge."""
    return key == network.spec.nad or (nad is not None and network.spec.bridge_name in links_of(nad))


def check_outsiders(
    new: DummyClusterNetwork, old: DummyClusterNetwork | None, nads: Iterable[NetworkAttachmentDefinition]
) -> Iterator[str]:
    """Yield a warning for NADs at a network's bridge that its namespaces exclude from now on.

    Raises Denied for a new bridge. The machines at a NAD which was there before the network would be let in.
    """
    spec = new.spec
    found = sorted(
        {
            nad.metadata.key
            for nad in nads
            if spec.bridge_name in links_of(nad) and not spec.admits(nad.metadata.namespace)
        }
    )
    if not found:
        return
    keys = listed(map(str, found))
    if old is None or old.spec.bridge_name != spec.bridge_name:
        raise Denied(
            f"DummyClusterNetwork {new.metadata.name}: spec.namespaces: bridge {spec.bridge_name} is named by "
            f"NetworkAttachmentDefinition {keys} of a namespace that is not listed; delete it, list its namespace, or "
            "choose another bridge"
        )
    if old.spec.namespaces != spec.namespaces:
        yield (
            f"spec.namespaces: bridge {spec.bridge_name} is named by NetworkAttachmentDefinition {keys} of a namespace "
            "that is not listed; its machines keep the network, and new users are rejected"
        )


def not_admitted(network: DummyClusterNetwork, namespace: str) -> str:
    """Describe that a network is not for a namespace, and what can be done."""
    name = network.metadata.name
    return (
        f"DummyClusterNetwork {name} does not admit namespace {namespace}; use another network, or ask an "
        f"administrator to add {namespace} to spec.namespaces of DummyClusterNetwork {name}"
    )


def check_nad(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    networks: Iterable[DummyClusterNetwork],
    *,
    by_manager: bool,
) -> None:
    """Check a change of a network's NAD. A NAD without its network may be changed by any user. Raises Denied."""
    known = {item.metadata.uid: item for item in networks}
    uid, was = owner_of(new), owner_of(old) if old is not None else ""
    if was != uid and was in known:
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] is immutable: the NAD belongs to DummyClusterNetwork "
            f"{known[was].metadata.name}; keep the label unchanged"
        )
    owner = known.get(uid)
    if owner is None:
        if uid and uid != was:
            raise Denied(
                f'{_title(new)}: metadata.labels[{UID_LABEL}] is "{uid}", but no DummyClusterNetwork has that uid; '
                "remove the label"
            )
        return
    if uid != was:
        _check_adoption(new, owner)
    elif old is not None and new.spec.config != old.spec.config and not _is_wanted(new, owner):
        raise Denied(
            f"{_title(new)}: spec.config is derived from DummyClusterNetwork {owner.metadata.name}; "
            "change its spec.subnet or spec.gateway instead, or create another DummyClusterNetwork for another bridge"
        )
    _check_marks(new, old if uid == was else None, owner, by_manager=by_manager)


def check_nad_deletion(
    nad: NetworkAttachmentDefinition, networks: Iterable[DummyClusterNetwork], *, by_manager: bool
) -> None:
    """Check the deletion of a network's NAD. Raises Denied.

    A NAD is deleted after its network is, or by a manager if it accepts no new users.
    """
    uid = owner_of(nad)
    owner = next((item for item in networks if item.metadata.uid == uid), None)
    if owner is None:
        return
    name = owner.metadata.name
    if not owner.metadata.is_deleting:
        raise Denied(
            f"{_title(nad)}: it belongs to DummyClusterNetwork {name}; "
            f"delete the network instead (kubectl delete dcn {name})"
        )
    if not (by_manager and DRAINING in nad.metadata.annotations):
        raise Denied(
            f"{_title(nad)}: it is deleted automatically with DummyClusterNetwork {name}, which is being deleted; "
            f"for the reason of the wait, run kubectl get dcn {name} -o wide"
        )


def check_unused(
    nad: NetworkAttachmentDefinition, users: Sequence[User], requests: Sequence[Reservation]
) -> None:
    """Check that a NAD has no users, and that no admitted request can still add one. Raises Denied."""
    own = nad.metadata.namespace
    if users:
        named = titles_for(own, ((item.namespace, str(item)) for item in users))
        raise Denied(
            f"{_title(nad)}: it is used by {listed(named)}; remove the network from them, or delete them"
        )
    if requests:
        titles = listed(titles_for(own, ((item.namespace, item.title) for item in requests)))
        raise Denied(f"{_title(nad)}: {titles} may still be stored and use it; try again in a minute")


def _check_adoption(new: NetworkAttachmentDefinition, owner: DummyClusterNetwork) -> None:
    if owner.metadata.is_deleting:
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] is the uid of DummyClusterNetwork {owner.metadata.name}, "
            "which is being deleted; wait until it no longer exists"
        )
    if owner.spec.nad != new.metadata.key or not _is_wanted(new, owner):
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] is the uid of DummyClusterNetwork {owner.metadata.name}, "
            "whose NAD has another name; remove the label, because Lanloom creates its NADs itself"
        )


def _check_marks(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    owner: DummyClusterNetwork,
    *,
    by_manager: bool,
) -> None:
    before = old.metadata.annotations if old is not None else {}
    after = new.metadata.annotations
    name, leaves = owner.metadata.name, owner.metadata.is_deleting
    if before.get(DRAINING) != after.get(DRAINING):
        if DRAINING in after and not leaves:
            raise Denied(
                f"{_title(new)}: metadata.annotations[{DRAINING}] marks DummyClusterNetwork {name} as being "
                "deleted, but it is not; remove the annotation"
            )
        if DRAINING in before and leaves:
            raise Denied(
                f"{_title(new)}: metadata.annotations[{DRAINING}] must stay until DummyClusterNetwork {name} no longer "
                "exists; keep it unchanged"
            )
    if before.get(ADMITTED) != after.get(ADMITTED) and not by_manager:
        raise Denied(
            f"{_title(new)}: metadata.annotations[{ADMITTED}] is written by Lanloom's manager only; "
            "keep it unchanged"
        )


def _is_wanted(nad: NetworkAttachmentDefinition, owner: DummyClusterNetwork) -> bool:
    wanted = _wanted(owner)
    return wanted is not None and is_as_wanted(nad, wanted)


def _wanted(owner: DummyClusterNetwork) -> Isolated | None:
    try:
        return parse(owner)
    except Malformed:
        return None


def _title(nad: NetworkAttachmentDefinition) -> str:
    return f"NetworkAttachmentDefinition {nad.metadata.key}"


NODE_GATEWAY = (
    "spec.gateway is node: each node's bridge has the gateway's address and translates outgoing traffic to the node's "
    "address; machines on different nodes can't reach each other through it"
)


def check_claims(net: Isolated, networks: Iterable[DummyClusterNetwork]) -> None:
    """Check that no other network has the same NAD or the same bridge. Raises Denied."""
    for item in networks:
        if item.metadata.uid == net.uid or item.metadata.name == net.name:
            continue
        name, leaves = item.metadata.name, item.metadata.is_deleting
        remedy = "wait until that network no longer exists" if leaves else "choose another name"
        if item.spec.bridge_name == net.bridge:
            raise Denied(
                f"DummyClusterNetwork {net.name}: spec.bridgeName: {net.bridge} is the bridge of "
                f"DummyClusterNetwork {name} already; {remedy}"
            )
        if item.spec.nad == net.nad:
            raise Denied(
                f"DummyClusterNetwork {net.name}: spec.nadName: {net.nad} is the NAD of DummyClusterNetwork {name} "
                f"already; {remedy}"
            )


def check_place(net: Isolated, nad: NetworkAttachmentDefinition | None) -> None:
    """Check that no object of another owner is in the place of the NAD. Raises Denied."""
    if nad is None or is_ours(nad.metadata, net.uid):
        return
    leftover = UID_LABEL in nad.metadata.labels
    whose = (
        "was left behind by a deleted DummyClusterNetwork" if leftover else "does not belong to this network"
    )
    raise Denied(
        f"DummyClusterNetwork {net.name}: spec.nadName: NetworkAttachmentDefinition {net.nad} already exists and "
        f"{whose}; choose another name, or delete it when it is unused"
    )


def check_uplinks(net: Isolated, configs: Iterable[VlanConfig]) -> None:
    """Check that no VlanConfig gives the bridge an uplink. Raises Denied."""
    if fault := uplink_fault(net.bridge, configs):
        raise Denied(f"DummyClusterNetwork {net.name}: {fault}")


def check_subnet(net: Isolated, ranges: Ranges, others: Iterable[Isolated]) -> None:
    """Check that the cluster does not use the subnet. Raises Denied."""
    if fault := overlaps(net, ranges, others):
        raise Denied(f"DummyClusterNetwork {net.name}: {fault}")


def check_config(new: VlanConfig, old: VlanConfig | None, networks: Iterable[DummyClusterNetwork]) -> None:
    """Check that a VlanConfig gives no isolated network an uplink. Raises Denied."""
    cluster_network = new.spec.cluster_network
    if not cluster_network or (old is not None and old.spec.cluster_network == cluster_network):
        return
    for item in networks:
        if implied_cluster_network(item.spec.bridge_name) == cluster_network:
            raise Denied(
                f"VlanConfig {new.metadata.name}: spec.clusterNetwork: {item.spec.bridge_name} is the bridge of "
                f"DummyClusterNetwork {item.metadata.name}, which is isolated and must not have an uplink; name "
                "another cluster network, or delete the DummyClusterNetwork first"
            )
