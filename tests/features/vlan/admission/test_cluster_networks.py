"""What the webhooks answer about cluster networks, word for word."""

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import Raw, annotated, world
from tests.features.vlan.cluster import cluster_network, nad
from tests.harness.admission import request

P = names.PREFIX


def new(name: str, why: str, *more: Raw) -> Case:
    """A new cluster network that is refused."""
    message = f'can\'t create ClusterNetwork "{name}" because {why}'
    return Case(request(CLUSTER_NETWORKS, cluster_network(name)), world(*more), message)


def gone(name: str, why: str, *more: Raw) -> Case:
    """A deletion of a cluster network that is refused."""
    asked = request(CLUSTER_NETWORKS, None, cluster_network(name))
    return Case(asked, world(*more), f"can't delete ClusterNetwork {name} because {why}")


NAME_CASES: Cases = {
    "a name has at most 12 characters": new(
        "cluster-network",
        'metadata.name must have at most 12 characters and no dot: the bridge "cluster-network-br" is named after it',
    ),
    "a name has no dot": new(
        "a.b",
        'metadata.name must have at most 12 characters and no dot: the bridge "a.b-br" is named after it',
    ),
    "interfaces of two cluster networks have different names": new(
        "clust0000434",
        "its VLAN interfaces would have the same names as those of ClusterNetwork clust0000325 "
        "(clust-60f1.4094); choose another metadata.name",
        cluster_network("clust0000325"),
    ),
}
DELETION_CASES: Cases = {
    "mgmt is not deleted": gone("mgmt", "it is the management network"),
    "a cluster network with VlanConfigs is not deleted": gone(
        "cluster-1", "the VlanConfigs one belong to it; delete them first"
    ),
    "a cluster network with networks is not deleted": gone(
        "bare", "the networks default/net use it; delete them first", nad("net", "bare", 5)
    ),
}
ROLLOUT_CASES: Cases = {
    "a roll-out policy is read": Case(
        request(
            CLUSTER_NETWORKS,
            annotated(cluster_network("cluster-1"), rollout='{"maxUnavailable": "0%"}'),
            cluster_network("cluster-1"),
        ),
        world(),
        f'can\'t update ClusterNetwork cluster-1 because {P}rollout.maxUnavailable is "0%"; it must be a number of '
        'nodes from 1, or a percentage from "1%" to "100%"',
    ),
    "a roll-out policy has no unknown fields": Case(
        request(CLUSTER_NETWORKS, annotated(cluster_network("new"), rollout='{"maxUnavailible": 1}')),
        world(),
        f'can\'t create ClusterNetwork new because {P}rollout has the field "maxUnavailible"; it may have '
        "maxUnavailable and canary",
    ),
}


MTU_CASES: Cases = {
    f"uplink-mtu {title}": Case(
        request(CLUSTER_NETWORKS, annotated(cluster_network(name), uplink_mtu=text), cluster_network(name)),
        world(),
        f'can\'t update ClusterNetwork {name} because {P}uplink-mtu is "{text}"; it must be 0 or from 576 to 9000',
    )
    for title, name, text in (
        ("is a number", "cluster-1", "abc"),
        ("is 0 or 576 to 9000", "cluster-1", "9001"),
        ("also of mgmt", "mgmt", "575"),
        ("has no leading zeros", "mgmt", "01500"),
    )
}


@each(NAME_CASES)
def test_names_that_are_refused(case: Case) -> None:
    """A name that gives no names for links, or those of another cluster network, is refused."""
    assert answer(case) == case.message


@each(DELETION_CASES)
def test_cluster_networks_in_use_stay(case: Case) -> None:
    """A cluster network is deleted only when nothing uses it."""
    assert answer(case) == case.message


GRANT_CASES: Cases = {
    "what is given to Lanloom is read": Case(
        request(
            CLUSTER_NETWORKS,
            annotated(cluster_network("cluster-1"), adopt_links='{"node": ["node1"]}'),
            cluster_network("cluster-1"),
        ),
        world(),
        f'can\'t update ClusterNetwork cluster-1 because {P}adopt-links must be a JSON object such as {{"nodes": '
        '["node1"], "vlans": [36]}; `lanloom harvester adopt` writes and removes it',
    ),
    "what is given has VLAN ids": Case(
        request(
            CLUSTER_NETWORKS,
            annotated(cluster_network("cluster-1"), adopt_links='{"nodes": ["node1"], "vlans": [1]}'),
            cluster_network("cluster-1"),
        ),
        world(),
        f"can't update ClusterNetwork cluster-1 because {P}adopt-links.vlans has 1; ids are from 2 to 4094",
    ),
}


@each(GRANT_CASES)
def test_adoption_grants(case: Case) -> None:
    """What an administrator gives to Lanloom by hand is refused where no agent would read it."""
    assert answer(case) == case.message


def test_a_grant_to_no_node_is_told() -> None:
    """Links of a node that is not there are allowed, because it may join, and warned about."""
    given = annotated(
        cluster_network("cluster-1"), adopt_links='{"nodes": ["node1", "node9"], "vlans": [36]}'
    )
    verdict = check_request(request(CLUSTER_NETWORKS, given, cluster_network("cluster-1")), world())
    assert verdict == Verdict(warnings=(f"{P}adopt-links names nodes that do not exist: node9",))


@each(ROLLOUT_CASES)
def test_policies_that_are_refused(case: Case) -> None:
    """A roll-out policy that can't be read, or may be misread, is refused."""
    assert answer(case) == case.message


@each(MTU_CASES)
def test_mtus_that_are_refused(case: Case) -> None:
    """An uplink-mtu that no uplink could have is refused, also where the manager would put it right."""
    assert answer(case) == case.message


def test_mtus_that_are_allowed() -> None:
    """An uplink-mtu may be 0 or from 576 to 9000; one that was wrong before blocks no other edit."""
    for text in ("0", "576", "9000"):
        new = annotated(cluster_network("mgmt"), uplink_mtu=text)
        assert check_request(request(CLUSTER_NETWORKS, new, cluster_network("mgmt")), world()) == Verdict()
    wrong = annotated(cluster_network("mgmt"), uplink_mtu="abc")
    assert check_request(request(CLUSTER_NETWORKS, annotated(wrong, note="x"), wrong), world()) == Verdict()


def test_cluster_networks_that_nothing_uses_go() -> None:
    """An unused cluster network can be created and deleted."""
    assert check_request(request(CLUSTER_NETWORKS, None, cluster_network("bare")), world()) == Verdict()
    assert check_request(request(CLUSTER_NETWORKS, cluster_network("new")), world()) == Verdict()


def test_the_manager_can_always_annotate() -> None:
    """Annotations that the manager writes get through, also next to a policy that was broken before Lanloom came."""
    old = annotated(cluster_network("cluster-1"), rollout="{")
    new = annotated(old, rollout_state="{}", uplink_mtu="9000", matched_nodes="[]")
    assert check_request(request(CLUSTER_NETWORKS, new, old), world()) == Verdict()


def test_policies_come_and_go() -> None:
    """A policy that can be read is allowed, and so is taking it away."""
    plain = cluster_network("cluster-1")
    staged = annotated(plain, rollout='{"maxUnavailable": "25%", "canary": ["node1"]}')
    assert check_request(request(CLUSTER_NETWORKS, staged, plain), world()) == Verdict()
    assert check_request(request(CLUSTER_NETWORKS, plain, staged), world()) == Verdict()


def test_a_canary_that_is_no_node_is_told() -> None:
    """A canary that is no node is allowed, because it may join, and warned about."""
    staged = annotated(cluster_network("cluster-1"), rollout='{"canary": ["node1", "node9"]}')
    verdict = check_request(request(CLUSTER_NETWORKS, staged, cluster_network("cluster-1")), world())
    assert verdict.allowed
    assert verdict.warnings == ("network.harvesterhci.io/rollout names canaries that are not nodes: node9",)


def test_what_is_being_deleted_keeps_its_rules() -> None:
    """A cluster network whose deletion was asked for keeps its rules; its finalizers can go whatever is in it."""
    old, new = (
        annotated(cluster_network("cluster-1"), note="x"),
        annotated(cluster_network("cluster-1"), rollout="{"),
    )
    for body in (old, new):
        body["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/theirs"],
        }
    assert "rollout is not valid JSON" in check_request(request(CLUSTER_NETWORKS, new, old), world()).message
    released = {**new, "metadata": {**new["metadata"], "finalizers": []}}
    assert check_request(request(CLUSTER_NETWORKS, released, new), world()) == Verdict()


def test_a_name_of_300_characters_is_quoted_in_short() -> None:
    """A name that is far too long is refused, and its message stays readable."""
    message = check_request(request(CLUSTER_NETWORKS, cluster_network("c" * 300)), world()).message
    assert message.startswith("can't create ClusterNetwork \"ccc")
    assert "metadata.name must have at most 12 characters and no dot" in message
    assert len(message) < 400
