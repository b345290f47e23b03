"""What DummyClusterNetworks may be, and what may not take their bridges."""

from lanloom.api.core import NODES, PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from tests.features.dummy.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.dummy.admission.requests import MANAGER, Raw, leaving, nad, network, pod, told
from tests.harness.admission import request

SUBNET = "10.115.0.0/24"


def config(name: str = "a", cluster_network: str = "red") -> Raw:
    """A VlanConfig."""
    uplink = {"nics": ["enp1s0"]}
    return {"metadata": {"name": name}, "spec": {"clusterNetwork": cluster_network, "uplink": uplink}}


def node(pods: str) -> Raw:
    """A node whose pods have these addresses."""
    return {"metadata": {"name": "node1"}, "spec": {"podCIDR": pods}}


OUTSIDE = nad("own", config={"cniVersion": "1.0.0", "name": "own", "type": "bridge", "bridge": "red-br"})
OUTSIDE["metadata"]["namespace"] = "default"
NETWORK_CASES: Cases = {
    "names that can't be": Case(
        request(DCNS, network(bridge="lo")),
        (),
        'DummyClusterNetwork red: spec.bridgeName is "lo", a name that is reserved for other links of a node: '
        "choose another one, e.g. dummy-br",
    ),
    "the bridge of another network": Case(
        request(DCNS, network("blue", bridge="red-br")),
        ((DCNS, network()),),
        "DummyClusterNetwork blue: spec.bridgeName: red-br is the bridge of DummyClusterNetwork red already; "
        "choose another name",
    ),
    "the NAD of another network": Case(
        request(DCNS, network("blue", nad="red")),
        ((DCNS, leaving(network())),),
        "DummyClusterNetwork blue: spec.nadName: nets/red is the NAD of DummyClusterNetwork red already; "
        "wait until that network no longer exists",
    ),
    "a NAD that is there": Case(
        request(DCNS, network()),
        ((NADS, nad()),),
        "DummyClusterNetwork red: spec.nadName: NetworkAttachmentDefinition nets/red already exists and "
        "does not belong to this network; choose another name, or delete it when it is unused",
    ),
    "a NAD of a namespace outside at its bridge": Case(
        request(DCNS, network(namespaces=["team"])),
        ((NADS, OUTSIDE),),
        "DummyClusterNetwork red: spec.namespaces: bridge red-br is named by NetworkAttachmentDefinition default/own "
        "of a namespace that is not listed; delete it, list its namespace, or choose another bridge",
    ),
    "a bridge with an uplink": Case(
        request(DCNS, network()),
        ((VLAN_CONFIGS, config()),),
        "DummyClusterNetwork red: spec.bridgeName is red-br, the bridge of ClusterNetwork red, which has an uplink "
        "through VlanConfig a; choose another bridge, or delete every VlanConfig of that ClusterNetwork",
    ),
    "a network over the nodes without an underlay": Case(
        request(DCNS, network(scope="cluster")),
        (),
        'DummyClusterNetwork red: spec.underlay is missing, which the scope "cluster" requires: name the link of the '
        "nodes that carries the network between them, e.g. eth0",
    ),
    "a network over the nodes with a gateway on each": Case(
        request(DCNS, network(scope="cluster", underlay="eth0", subnet=SUBNET, gateway="node")),
        (),
        'DummyClusterNetwork red: spec.gateway is "node" and spec.scope is "cluster": all nodes would have the '
        'gateway\'s address on one network; remove the gateway, or use the scope "node"',
    ),
    "an underlay of a network of each node": Case(
        request(DCNS, network(underlay="eth0")),
        (),
        'DummyClusterNetwork red: spec.underlay is of the scope "cluster" only: remove it, or set spec.scope to '
        '"cluster"',
    ),
    "a subnet of IPv6 that is used": Case(
        request(DCNS, network(subnet=f"{SUBNET},fd00:115::/64")),
        ((NODES, node("fd00:115::/80")),),
        "DummyClusterNetwork red: spec.subnet fd00:115::/64 overlaps fd00:115::/80 of the pods of node node1: "
        "choose a range that nothing in the cluster uses, or leave the subnet out",
    ),
    "a subnet that is used": Case(
        request(DCNS, network(subnet=SUBNET)),
        ((NODES, node("10.115.0.0/16")),),
        "DummyClusterNetwork red: spec.subnet 10.115.0.0/24 overlaps 10.115.0.0/16 of the pods of node node1: "
        "choose a range that nothing in the cluster uses, or leave the subnet out",
    ),
}

CHANGE_CASES: Cases = {
    "names are for life": Case(
        request(DCNS, network(bridge="x-br"), network()),
        ((DCNS, network()),),
        'DummyClusterNetwork red: spec.bridgeName is immutable: it is "red-br" and can\'t be changed to "x-br"; '
        "delete and recreate the object, or create one with another name",
    ),
    "addresses of those who are there": Case(
        request(DCNS, network(subnet=SUBNET), network()),
        ((DCNS, network()), (NADS, nad(of="red")), (PODS, pod())),
        'DummyClusterNetwork red: spec.subnet can\'t be changed from "" to "10.115.0.0/24" while the network is in use '
        "by Pod default/web; remove the network from them first",
    ),
    "the status is the manager's": Case(
        request(DCNS, network(), network(), status=True),
        ((DCNS, network()),),
        "DummyClusterNetwork red: status is written by Lanloom's manager only; change the spec instead",
    ),
}

UPLINK_CASES: Cases = {
    "an isolated network gets no uplink": Case(
        request(VLAN_CONFIGS, config()),
        ((DCNS, network()),),
        "VlanConfig a: spec.clusterNetwork: red-br is the bridge of DummyClusterNetwork red, which is isolated and "
        "must not have an uplink; name another cluster network, or delete the DummyClusterNetwork first",
    ),
}


@each(NETWORK_CASES)
def test_networks_that_can_not_be(case: Case) -> None:
    """A network that can't be made, or wants what is another's, is refused with the reason and the remedy."""
    assert answer(case) == case.message


@each(CHANGE_CASES)
def test_changes_that_can_not_be(case: Case) -> None:
    """What others rely on does not change."""
    assert answer(case) == case.message


@each(UPLINK_CASES)
def test_isolated_networks_stay_isolated(case: Case) -> None:
    """No user gives the bridge of an isolated network an uplink."""
    assert answer(case) == case.message


def test_a_network_beside_others_is_allowed() -> None:
    """A network with names and addresses of its own is allowed without a word."""
    verdict = told(request(DCNS, network("blue", subnet=SUBNET)), (DCNS, network()), (NADS, nad(of="red")))
    assert verdict.allowed and not verdict.warnings


def test_what_may_surprise_is_said() -> None:
    """A namespace that is not there yet, and a gateway that is each node's own, are allowed with a warning."""
    asked = request(DCNS, network(subnet=SUBNET, gateway="node", nadNamespace="gone"))
    namespace, gateway = told(asked).warnings
    assert "namespace gone does not exist" in namespace and "each node's" in gateway


def test_who_keeps_a_network_is_said() -> None:
    """The deletion of a network that is used is allowed, with a warning that names the users."""
    present = ((DCNS, network()), (NADS, nad(of="red")), (PODS, pod()))
    verdict = told(request(DCNS, None, network()), *present)
    assert verdict.allowed and "Pod default/web" in verdict.warnings[0]


def test_a_network_that_leaves_can_be_changed_whatever_stands_in_it() -> None:
    """The finalizer of a network that is being deleted can go although its spec could not be made any more."""
    old = leaving(network(bridge="lo"))
    assert told(request(DCNS, leaving(network(bridge="lo")), old), (DCNS, network("lo-2", nad="red"))).allowed


def test_a_network_that_is_there_is_for_the_api_server_to_refuse() -> None:
    """The creation of a network that is there fails with just that, and not because its NAD is in the way."""
    assert told(request(DCNS, network()), (DCNS, network()), (NADS, nad(of="red"))).allowed


def test_labels_of_an_invalid_network_can_be_changed() -> None:
    """A change that leaves the spec alone is allowed."""
    new = network(bridge="lo")
    new["metadata"]["labels"] = {"a": "b"}
    assert told(request(DCNS, new, network(bridge="lo"))).allowed


def test_the_manager_writes_statuses() -> None:
    """The manager may write what others may not."""
    assert told(request(DCNS, network(), network(), status=True, user=MANAGER), (DCNS, network())).allowed


def test_nobody_is_refused_because_a_watch_lags_behind() -> None:
    """What the watches still show of a network that is gone stops no VlanConfig."""
    assert told(request(VLAN_CONFIGS, config()), seen=[(DCNS, network())]).allowed


def test_a_network_that_the_watches_do_not_show_is_found() -> None:
    """A network that was created a moment ago is another's rival already."""
    verdict = told(request(DCNS, network("blue", bridge="red-br")), (DCNS, network()), seen=[])
    assert not verdict.allowed


def test_configs_that_were_there_can_be_changed() -> None:
    """A VlanConfig that a network came after can be changed in everything else."""
    assert told(request(VLAN_CONFIGS, config(), config()), (DCNS, network())).allowed


def test_a_refusal_shows_no_control_characters() -> None:
    """Whatever is in a name or a field, the refusal that repeats it is one line that terminals show as it is."""
    strange = network("red\x1b[2J", bridge="b\r\n\u202e")
    verdict = told(request(DCNS, strange))
    assert not verdict.allowed and verdict.message.isprintable()
    assert "DummyClusterNetwork red�[2J" in verdict.message
