"""What the webhooks allow of ClusterNetworks and VlanStatuses.

Every refusal names the object, the field and what is allowed there.
"""

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanStatus
from lanloom.api.l3 import VID_MAX, AnnotationError, quote
from lanloom.api.rollout import parse_rollout
from lanloom.vlan.rules.names import interface_name, is_vlan_status_of, node_label, vlan_status_name
from lanloom.vlan.rules.refusal import Refused, World


def check_cluster_network(new: ClusterNetwork, old: ClusterNetwork | None, world: World) -> tuple[str, ...]:
    """Whether a ClusterNetwork may be created or changed so; returns warnings."""
    if old is None:
        _check_name(new.metadata.name, world)
    policy = new.metadata.annotations.get(names.ROLLOUT)
    if policy is None or (old is not None and old.metadata.annotations.get(names.ROLLOUT) == policy):
        return ()  # the manager's own annotations must get through
    verb = "create" if old is None else "update"
    try:
        canaries = parse_rollout(policy).canary
    except AnnotationError as error:
        raise Refused(f"can't {verb} ClusterNetwork {new.metadata.name} because {error}") from None
    unknown = sorted(set(canaries) - set(world.nodes()))
    return (f"{names.ROLLOUT} names canaries that are no nodes: {', '.join(unknown)}",) if unknown else ()


def _check_name(name: str, world: World) -> None:
    """The names of links are made from it."""
    title = f"can't create ClusterNetwork {quote(name)}"
    if len(name) > names.CLUSTER_NETWORK_NAME_MAX or "." in name:
        raise Refused(
            f"{title} because metadata.name must have at most {names.CLUSTER_NETWORK_NAME_MAX} characters and no dot: "
            f"the bridge {quote(names.bridge_name(name))} is named after it"
        )
    for other in world.cluster_networks():
        taken = other.metadata.name
        if taken != name and interface_name(taken, VID_MAX) == interface_name(name, VID_MAX):
            raise Refused(
                f"{title} because its VLAN interfaces would be called like those of ClusterNetwork {taken} "
                f"({interface_name(name, VID_MAX)}); choose another metadata.name"
            )


def check_cluster_network_deletion(old: ClusterNetwork, world: World) -> None:
    """Whether a ClusterNetwork may be deleted: nothing may use it."""
    name = old.metadata.name
    title = f"can't delete ClusterNetwork {name}"
    if name == names.MGMT:
        raise Refused(f"{title} because it is the management network")
    configs = sorted(item.metadata.name for item in world.configs_of(name))
    if configs:
        raise Refused(f"{title} because the VlanConfigs {', '.join(configs)} belong to it; delete them first")
    nads = sorted(str(item.metadata.key) for item in world.nads_of(name))
    if nads:
        raise Refused(f"{title} because the networks {', '.join(nads)} use it; delete them first")


def check_vlan_status(status: VlanStatus, node: str) -> None:
    """Whether the agent of `node` may write a VlanStatus: only one of its own node, under its own name.

    An agent whose node is not known is of the node "", which has none.
    """
    labels = status.metadata.labels
    name = vlan_status_name(labels.get(names.CLUSTER_NETWORK_LABEL, ""), node)
    own = labels.get(names.NODE_LABEL) == node_label(node) and status.metadata.name == name
    if not own or status.status.node not in ("", node):
        raise _foreign("write", status, node)


def check_vlan_status_deletion(status: VlanStatus, node: str) -> None:
    """Whether the agent of `node` may delete a VlanStatus: one that is its own by its name, or by all that is in it.

    More than it may write, because it has to make reports anew that somebody spoilt, and to clear up after others.
    """
    own = is_vlan_status_of(status.metadata.name, node)
    told = status.metadata.labels.get(names.NODE_LABEL) == node_label(node)
    if not (own or (told and status.status.node in ("", node))):
        raise _foreign("delete", status, node)


def _foreign(verb: str, status: VlanStatus, node: str) -> Refused:
    title = f"can't {verb} VlanStatus {status.metadata.name} because"
    if not node:
        return Refused(
            f"{title} an agent may only {verb} its own node's, and this one's token names no node, and no pod that is "
            f"known in namespace {names.LANLOOM_NAMESPACE}; one that has just started is known in a moment: try again"
        )
    return Refused(f"{title} the agent of node {quote(node)} may only {verb} its own node's")
