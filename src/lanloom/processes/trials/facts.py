"""What the plan of `lanloom check` depends on, read from the cluster."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from lanloom.api import core
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, Node
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LAN, LANS
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Reader
from lanloom.refusals import Refusal
from lanloom.runtime.trials import HOSTNAME, Facts, NodeAddress, TrialNode

KINDS: tuple[Resource[Any], ...] = (CLUSTER_NETWORK_NODES, DUMMY_CLUSTER_NETWORKS, LANS, NADS, NETWORKS)
"""Those of which a plan wants to know whether the server has them."""

FIRST_VNI = 16_770_000
"""The greatest VNI that is looked at; people begin with small ones."""

NO_MULTUS = (
    f"the server does not serve {NADS.full_name}, by which pods are attached; install Multus, and run "
    "`lanloom crds --apply`"
)
NO_MANAGER = (
    f"no manager runs in {LANLOOM_NAMESPACE}; run `lanloom install | kubectl apply -f -`. Where it runs elsewhere, "
    "name the image of the pods with --image"
)

MANAGERS = "app.kubernetes.io/name=lanloom-manager"


class Container(Struct, frozen=True, kw_only=True, rename="camel"):
    """The image of a container, and when it is pulled."""

    image: str = ""
    image_pull_policy: str = "IfNotPresent"


class ImagePodSpec(core.PodSpec, frozen=True, kw_only=True, rename="camel"):
    """The containers of a pod."""

    containers: tuple[Container, ...] = ()


class ImagePod(core.Pod, frozen=True, kw_only=True):
    """A pod with its images."""

    spec: ImagePodSpec = ImagePodSpec()


IMAGE_PODS = Resource(group="", version="v1", kind="Pod", plural="pods", type=ImagePod, namespaced=True)


class CheckOptions(Struct, frozen=True, kw_only=True):
    """What the user says; empty for what the cluster says."""

    image: str = ""
    underlay: str = ""
    nodes: tuple[str, ...] = ()
    seconds: int = 120


async def read_facts(client: Reader, options: CheckOptions, run: str) -> Facts:
    """Read the facts. Raises KubeError, also where no kind is served, and Refusal with all that a check lacks."""
    found = await _objects(client)
    lans = [item for item in found.get(LANS.full_name, ()) if isinstance(item, LAN)]
    image, policy = (options.image, "IfNotPresent") if options.image else await _image(client)
    nodes = (await client.list(NODES)).items
    lacks = [NO_MULTUS] if NADS.full_name not in found else []
    lacks += [NO_MANAGER] if not image else []
    try:
        able = places(nodes, options.nodes)
    except Refusal as error:
        lacks.append(str(error))
    if lacks:
        raise Refusal("\n".join(("the check can't run:", *(f"- {item}" for item in lacks))))
    reports = found.get(CLUSTER_NETWORK_NODES.full_name, ())
    return Facts(
        places=able,
        kinds=frozenset(found),
        run=run,
        image=image,
        pull_policy=policy,
        seconds=options.seconds,
        underlay=options.underlay
        or next((lan.spec.default_vxlan_dev for lan in lans if lan.spec.default_vxlan_dev), ""),
        vni=free_vni(lan.spec.vni for lan in lans),
        addresses=tuple(address for item in reports for address in node_addresses(item)),
    )


async def _objects(client: Reader) -> dict[str, Sequence[Any]]:
    """Return the objects of all kinds that the server has. Raises NotFound where it has none of Lanloom's."""
    found: dict[str, Sequence[Any]] = {}
    missing: NotFound | None = None
    for kind in KINDS:
        try:
            found[kind.full_name] = (await client.list(kind)).readable
        except NotFound as error:
            missing = missing or error
    if missing is not None and not found.keys() - {NADS.full_name}:
        raise missing
    return found


async def _image(client: Reader) -> tuple[str, str]:
    """Return the image of a manager, or of the pods of isolated networks, and how it is pulled; empty without one."""
    for namespace, labels in ((LANLOOM_NAMESPACE, MANAGERS), (BRIDGES_NAMESPACE, "")):
        for pod in (await client.list(IMAGE_PODS, namespace, labels=labels)).readable:
            for container in pod.spec.containers:
                return container.image, container.image_pull_policy
    return "", ""


def places(nodes: Iterable[Node], wanted: Sequence[str]) -> tuple[TrialNode, ...]:
    """Return the nodes that take pods, in the order in which they are wanted. Raises Refusal."""
    able = {
        node.metadata.name: TrialNode(
            node.metadata.name, node.metadata.labels.get(HOSTNAME, node.metadata.name)
        )
        for node in sorted(nodes, key=lambda node: node.metadata.name)
        if is_true(node.status.conditions, "Ready") and not node.spec.unschedulable
    }
    if missing := [name for name in wanted if name not in able]:
        raise Refusal(f"these nodes are not ready, cordoned or not there: {', '.join(missing)}")
    if not able:
        raise Refusal("no node is ready and takes pods")
    return tuple(able[name] for name in wanted or able)


def free_vni(used: Iterable[int]) -> int:
    """Return a VNI that no LAN has, nor the one below it."""
    taken = frozenset(used)
    return next(vni for vni in range(FIRST_VNI, 1, -1) if not taken & {vni, vni - 1})


def node_addresses(report: ClusterNetworkNode) -> Iterator[NodeAddress]:
    """Yield the addresses that a node has in VLANs of a cluster network."""
    status = report.status
    for item in status.interfaces:
        if item.state == "Ready":
            for address in filter(None, (item.address, item.address6)):
                yield NodeAddress(
                    cluster_network=status.cluster_network,
                    vlan=item.vlan_id,
                    node=status.node,
                    interface=item.name,
                    address=str(ipaddress.ip_interface(address).ip),
                )
