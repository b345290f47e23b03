"""Which namespaces may join their LANs to VLANs, word for word."""

import json

import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, Management
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork
from lanloom.api.meta import ObjectMeta
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.reader import ClusterReader, reader_of
from lanloom.features.vlan.rules.admit.lans import check_lan_uplink
from lanloom.features.vlan.rules.desired.reserved import Reserved
from lanloom.refusals import Denied
from tests.features.vlan.admission.requests import annotated, world
from tests.features.vlan.cluster import cluster_network
from tests.harness.admission import request

UPLINKS, MANAGEMENT = names.LAN_UPLINK_NAMESPACES, names.MANAGEMENT_VLAN_NAMESPACES


def cluster(
    *,
    vlan_ids: frozenset[int] = frozenset({2021}),
    reported: int | None = None,
    name: str = "mgmt",
    **lists: object,
) -> ClusterReader:
    """A cluster network with these lists of namespaces, the VLAN ids of the nodes, and an agent's report of one."""
    annotations = {names.PREFIX + key.replace("_", "-"): json.dumps(value) for key, value in lists.items()}
    network = ClusterNetwork(metadata=ObjectMeta(name=name, annotations=annotations))
    status = ClusterNetworkNodeStatus(
        cluster_network="mgmt",
        node="node1",
        management=Management(vlan_id=reported) if reported is not None else None,
    )
    report = ClusterNetworkNode(metadata=ObjectMeta(name="mgmt-node1"), status=status)
    return reader_of(networks=[network], statuses=[report], reserved=Reserved(vlan_ids=vlan_ids))


ALLOWED: dict[str, tuple[str, int, ClusterReader]] = {
    "any VLAN of a cluster network": ("c1", 2021, cluster(name="c1")),
    "another VLAN of mgmt": ("mgmt", 300, cluster()),
    "a management network without a tag": ("mgmt", 300, cluster(vlan_ids=frozenset(), reported=0)),
    "a cluster network that is not there yet": ("c2", 300, cluster()),
    "a namespace of the list": ("c1", 300, cluster(name="c1", lan_uplink_namespaces=["other", "tenant"])),
    "the management VLAN for a namespace of its list": (
        "mgmt",
        2021,
        cluster(management_vlan_namespaces=["tenant"]),
    ),
    "both lists": (
        *("mgmt", 2021),
        cluster(lan_uplink_namespaces=["tenant"], management_vlan_namespaces=["tenant"]),
    ),
    "an unknown management VLAN, for a namespace of its list": (
        *("mgmt", 300),
        cluster(vlan_ids=frozenset(), management_vlan_namespaces=["tenant"]),
    ),
}

REFUSED: dict[str, tuple[str, int, ClusterReader, str]] = {
    "the management VLAN": (
        *("mgmt", 2021, cluster()),
        "VLAN 2021 is that of the management network itself, on which the nodes are; choose another VLAN, or ask an "
        f'administrator to add "tenant" to the annotation {MANAGEMENT} of ClusterNetwork mgmt',
    ),
    "the management VLAN, though uplinks are allowed": (
        *("mgmt", 2021, cluster(lan_uplink_namespaces=["tenant"], management_vlan_namespaces=["other"])),
        f'add "tenant" to the annotation {MANAGEMENT}',
    ),
    "the management VLAN of one of several nodes": (
        *("mgmt", 2022, cluster(vlan_ids=frozenset({2021, 2022}))),
        "VLAN 2022 is that of the management network itself",
    ),
    "an unknown management VLAN": (
        *("mgmt", 300, cluster(vlan_ids=frozenset())),
        "no agent has reported which VLAN is that of the management network; wait until one has, start the manager "
        'with --mgmt-vlan, or ask an administrator to add "tenant" to',
    ),
    "a namespace that is not in the list": (
        *("c1", 300, cluster(name="c1", lan_uplink_namespaces=["other"])),
        f"ClusterNetwork c1 allows LANs on its VLANs only to the namespaces of its annotation {UPLINKS} (other); ask "
        'its administrator to add "tenant"',
    ),
    "an empty list": (*("c1", 300, cluster(name="c1", lan_uplink_namespaces=[])), f"{UPLINKS} (none); ask"),
    "the list of uplinks counts for mgmt as well": (
        *("mgmt", 2021, cluster(lan_uplink_namespaces=[], management_vlan_namespaces=["tenant"])),
        f"{UPLINKS} (none); ask",
    ),
    "a list that can't be read": (
        *("c1", 300, cluster(name="c1", lan_uplink_namespaces="tenant")),
        f"ClusterNetwork c1 has an invalid list of namespaces for LANs: {UPLINKS} must be a JSON list of namespaces",
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_who_may(case: str) -> None:
    """Any namespace may join LANs to any VLAN but that of the nodes, unless lists say otherwise."""
    check_lan_uplink("tenant", *ALLOWED[case])


@pytest.mark.parametrize("case", REFUSED)
def test_who_may_not(case: str) -> None:
    """The nodes' own VLAN is for namespaces of its list only, and a list of uplinks excludes all others."""
    *asked, message = REFUSED[case]
    with pytest.raises(Denied) as error:
        check_lan_uplink("tenant", *asked)  # type: ignore[arg-type]
    assert message in str(error.value)


@pytest.mark.parametrize("field", [UPLINKS, MANAGEMENT])
def test_lists_are_judged(field: str) -> None:
    """A list of namespaces that can't be read is refused when it is written."""
    plain = cluster_network("cluster-1")
    key = field.removeprefix(names.PREFIX).replace("-", "_")
    broken = annotated(plain, **{key: "tenant"})
    verdict = check_request(request(CLUSTER_NETWORKS, broken, plain), world())
    assert f"{field} is not valid JSON" in verdict.message
    assert check_request(
        request(CLUSTER_NETWORKS, annotated(plain, **{key: '["tenant"]'}), plain), world()
    ).allowed
