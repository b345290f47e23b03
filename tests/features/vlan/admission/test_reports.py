"""Who may write a ClusterNetworkNode."""

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.admission import UserInfo
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.features.vlan.rules.desired.names import report_name
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import Raw, report, report_verdict, world
from tests.harness.admission import request

AGENT = names.NODE_USER_PREFIX
ACCOUNT = f"system:serviceaccount:{names.LANLOOM_NAMESPACE}:lanloom-agent"
TOKEN = "authentication.kubernetes.io/"
REPORT_CASES: Cases = {
    "an agent reports of its own node": Case(
        request(CLUSTER_NETWORK_NODES, report("cluster-1", "node2"), user=f"{AGENT}node1"),
        world(),
        f'can\'t write ClusterNetworkNode {report_name("cluster-1", "node2")} because the agent of node "node1" may '
        "only write its own node's",
    ),
    "an agent deletes its own node's reports": Case(
        request(CLUSTER_NETWORK_NODES, None, report("cluster-1", "node2"), user=f"{AGENT}node1"),
        world(),
        f'can\'t delete ClusterNetworkNode {report_name("cluster-1", "node2")} because the agent of node "node1" may '
        "only delete its own node's",
    ),
    "an agent's node is known": Case(
        request(CLUSTER_NETWORK_NODES, report("cluster-1", "node2"), user=ACCOUNT),
        world(),
        f"can't write ClusterNetworkNode {report_name('cluster-1', 'node2')} because an agent may only write its own "
        "node's, and the token of this one names neither a node nor a known pod in namespace "
        f"{names.LANLOOM_NAMESPACE}; if the agent has just started, try again in a moment",
    ),
}
FOREIGN_REPORTS = {
    "another node's": report("cluster-1", "node2"),
    "another node's name": {
        **report("cluster-1", "node1"),
        "metadata": {**report("cluster-1", "node2")["metadata"]},
    },
    "a made-up name": {
        **report("cluster-1", "node1"),
        "metadata": {
            **report("cluster-1", "node1")["metadata"],
            "name": report_name("cluster-1", "node2"),
        },
    },
    "another node in it": {**report("cluster-1", "node1"), "status": report("cluster-1", "node2")["status"]},
    "no labels": {**report("cluster-1", "node1"), "metadata": {"name": "x"}},
}


@each(REPORT_CASES)
def test_reports_that_are_refused(case: Case) -> None:
    """The report of another node is refused with the name of the agent's own."""
    assert answer(case) == case.message


@pytest.mark.parametrize("body", FOREIGN_REPORTS.values(), ids=FOREIGN_REPORTS)
def test_an_agent_writes_its_own_reports_only(body: Raw) -> None:
    """An agent can't create or change a report that is not wholly its own node's."""
    own = report("cluster-1", "node1")
    name = body["metadata"]["name"]
    for asked in (
        request(CLUSTER_NETWORK_NODES, body, user=f"{AGENT}node1"),
        request(CLUSTER_NETWORK_NODES, body, own, user=f"{AGENT}node1"),
        request(CLUSTER_NETWORK_NODES, own, body, user=f"{AGENT}node1"),
    ):
        assert report_verdict(asked).message == (
            f"can't write ClusterNetworkNode {name} because the agent of node \"node1\" may only write its own node's"
        )


@pytest.mark.parametrize(
    ("title", "allowed"),
    [
        ("another node's", False),
        ("another node's name", False),
        ("no labels", False),
        ("a made-up name", True),
        ("another node in it", True),
    ],
)
def test_an_agent_clears_up_on_its_own_node(title: str, allowed: bool) -> None:
    """An agent can delete what is its own node's by its name, or by all that is in it, and nothing else."""
    asked = request(CLUSTER_NETWORK_NODES, None, FOREIGN_REPORTS[title], user=f"{AGENT}node1")
    assert report_verdict(asked).allowed == allowed


@pytest.mark.parametrize(
    "user", [f"{AGENT}node1", "kubernetes-admin", "system:serviceaccount:lanloom-system:manager"]
)
def test_reports_are_written_by_their_agents_and_by_people(user: str) -> None:
    """A node's own agent writes its report, and no other user is an agent."""
    assert report_verdict(request(CLUSTER_NETWORK_NODES, report("cluster-1", "node1"), user=user)).allowed


@pytest.mark.parametrize(
    ("extra", "allowed"),
    [
        ({"node-name": "node1"}, True),
        ({"node-name": "node2"}, False),
        ({"pod-name": "agent7"}, True),
        ({"pod-name": "agent8"}, False),
        ({}, False),
    ],
)
def test_on_kubernetes_the_token_tells_the_node(extra: dict[str, str], allowed: bool) -> None:
    """Agents share a service account: their token names the node, or the pod; one without both writes nothing."""
    user = UserInfo(username=ACCOUNT, extra={TOKEN + key: (value,) for key, value in extra.items()})
    asked = replace(request(CLUSTER_NETWORK_NODES, report("cluster-1", "node1")), user_info=user)
    assert report_verdict(asked).allowed == allowed
