"""`lanloom dummy list` and `show` as their users call them."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from click.testing import Result

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.kube.ports import Client
from lanloom.nads.guard import Reservation
from tests.cli.cluster import Cluster, served
from tests.features.dummy.cli.dummies import (
    HOME,
    add_daemons,
    add_event,
    add_namespace,
    add_network,
    add_nodes,
    add_pod,
    note_requests,
)

pytestmark = pytest.mark.slow

FAR = 4_000_000_000.0
PODLESS = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "name": "dummy-f-podless",
    "namespace": HOME,
    "uid": "u",
}
HOSTILE = "\x1b[31mred\x07 [bold]loud[/bold]\nsecond line"


async def fill(client: Client) -> None:
    """A network in each phase, and those who use them."""
    await add_nodes(client, "node1", "node2")
    await add_namespace(client, "shop")
    ready = {
        "phase": "Ready",
        "message": "the bridge dummy-br is on both nodes",
        "resources": [
            {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "name": "a-ready"}
            | {"namespace": "default", "uid": "u"}
        ],
        "conditions": [{"type": "NADReady", "status": "True", "reason": "AsWanted", "message": ""}],
    }
    await add_daemons(
        client, await add_network(client, "a-ready", ready), "present", {"node1": "", "node2": ""}
    )
    await add_network(client, "b-new")
    bad = {"phase": "InvalidSpec", "message": HOSTILE}
    await add_network(client, "c-invalid", bad, subnet="[bold]10.0.0.0/99")
    blocked = await add_network(client, "d-blocked", {"phase": "DeletionBlocked", "message": "it is used"})
    await add_pod(client, "web-0", "shop", annotations={MULTUS_NETWORKS: "default/d-blocked@eth1"})
    requests = (Reservation("u", 0, FAR, "VirtualMachine shop/new"),)
    await note_requests(client, "d-blocked", msgspec.json.encode(requests).decode())
    await add_event(client, blocked, "Ready", "it is ready")
    await add_event(client, blocked, "DeletionBlocked", "Pod shop/web-0 uses it")
    await client.delete(DUMMY_CLUSTER_NETWORKS, "d-blocked")
    going = await add_network(client, "e-going", {"phase": "Terminating", "message": "bridges go"})
    await add_daemons(client, going, "absent", {"node1": "", "node2": f"dummy-br has a port {HOSTILE}"})
    await client.delete(DUMMY_CLUSTER_NETWORKS, "e-going")
    waits = {"phase": "Pending", "message": "0 of 2 nodes have the bridge", "resources": [PODLESS]}
    waits["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "NodesPending", "message": waits["message"]}
    ]
    await add_daemons(client, await add_network(client, "f-podless", waits), "present", {})
    for scope in ("node", "cluster"):
        await add_network(client, f"g-{scope}", {"phase": "Ready"}, scope=scope, underlay="eth0")
        for number in (1, 2):
            uses = {"k8s.v1.cni.cncf.io/networks": f"default/g-{scope}"}
            await add_pod(client, f"{scope}{number}", "shop", node=f"node{number}", annotations=uses)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with these networks and no manager."""
    with served(tmp_path_factory.mktemp("served"), manager=False) as made:
        made.do(fill)
        yield made


def is_tidy(done: Result) -> bool:
    """Whether nothing of the output says anything to a terminal, and nothing is wider than that."""
    lines = done.output.splitlines()
    return all(line.isprintable() for line in lines) and max(map(len, lines)) <= 80


def row(done: Result, name: str) -> list[str]:
    """The words of the row that begins with that name."""
    return next(line.split() for line in done.output.splitlines() if line.split()[:1] == [name])


def test_list(cluster: Cluster) -> None:
    """There is a row for each network with its phase, nodes and users; the first that is not well is explained."""
    done = cluster.lanloom("dummy", "list")
    assert row(done, "a-ready")[1:6] == ["Ready", "dummy-br", "default/", "2/2", "0"]
    assert row(done, "a-ready")[6].endswith("s")
    assert row(done, "b-new")[1] == "NotSeen"
    assert row(done, "d-blocked")[1] == "DeletionBlocked"
    assert row(done, "e-going")[1] == "Terminating"
    assert "b-new: NotSeen: no manager has processed it yet" in done.output
    assert "See `lanloom dummy show b-new`." in done.output
    assert is_tidy(done)
    assert done.exit_code == 1


def test_list_for_programs(cluster: Cluster) -> None:
    """JSON has everything of every network, with all users."""
    data = {item["name"]: item for item in json.loads(cluster.lanloom("dummy", "list", "-o", "json").output)}
    assert data["c-invalid"]["message"] == HOSTILE
    assert [user["kind"] for user in data["d-blocked"]["users"]] == ["Pod"]
    assert [node["state"] for node in data["a-ready"]["nodes"]] == ["Ready", "Ready"]


def test_list_in_a_pipe_is_a_line_for_each(cluster: Cluster) -> None:
    """Where the output is no terminal each row is one line, without colours."""
    done = cluster.lanloom("dummy", "list", environment={"COLUMNS": ""})
    assert "\x1b" not in done.output
    assert row(done, "d-blocked")[1:7] == [
        "DeletionBlocked",
        "node",
        "dummy-br",
        "default/d-blocked",
        "0/0",
        "1",
    ]


def test_show_a_network_that_is_ready(cluster: Cluster) -> None:
    """Its nodes, what was made for it, and by which name it is used; exit code 0."""
    done = cluster.lanloom("dummy", "show", "a-ready")
    assert done.exit_code == 0
    assert row(done, "node1") == ["node1", "Ready"]
    assert "NetworkAttachmentDefinition default/a-ready" in done.output
    assert "NADReady: True AsWanted" in done.output
    assert "reference it as default/a-ready" in done.output
    assert is_tidy(done)


def test_show_a_network_whose_deletion_is_blocked(cluster: Cluster) -> None:
    """Its users, the requests that may still come, its Events in order, and what to ask next; exit code 1."""
    done = cluster.lanloom("dummy", "show", "d-blocked")
    assert done.exit_code == 1
    assert "Used by:\n  Pod shop/web-0" in done.output
    assert "VirtualMachine shop/new, at the latest at 2096-" in done.output
    assert "Warning DeletionBlocked (x3): Pod shop/web-0 uses it" in " ".join(done.output.split())
    assert "`lanloom why-not-deleted dcn/d-blocked`" in done.output
    data = json.loads(cluster.lanloom("dummy", "show", "d-blocked", "-o", "json").output)
    assert [event["reason"] for event in data["events"]] == ["Ready", "DeletionBlocked"]


@pytest.mark.parametrize("name", ["b-new", "c-invalid", "e-going"])
def test_show_stays_tidy(cluster: Cluster, name: str) -> None:
    """Whatever objects and pods say, it stays within 80 columns and tells the terminal nothing."""
    done = cluster.lanloom("dummy", "show", name)
    assert is_tidy(done)
    assert done.exit_code == 1


def test_texts_of_others_are_no_markup(cluster: Cluster) -> None:
    """What looks like markup is shown as it is."""
    done = cluster.lanloom("dummy", "show", "c-invalid")
    assert "[bold]loud[/bold] second line" in done.output
    assert "addresses from [bold]10.0.0.0/99" in done.output


@pytest.mark.parametrize("scope", ["node", "cluster"])
def test_show_users_that_do_not_reach_each_other(cluster: Cluster, scope: str) -> None:
    """Each pod is shown with its node; with a network for each node it is said that they do not reach each other."""
    done = cluster.lanloom("dummy", "show", f"g-{scope}")
    text = " ".join(done.output.split())
    assert f"Pod shop/{scope}1 on node1 Pod shop/{scope}2 on node2" in text
    apart = "Users on different nodes (node1, node2) do not reach each other" in text
    assert (
        apart == ("create another DummyClusterNetwork with spec.scope cluster" in text) == (scope == "node")
    )
    assert is_tidy(done)


def test_show_nodes_without_pods(cluster: Cluster) -> None:
    """Where nodes lack the pod that keeps the bridge, it says what to ask; the message at the top is said only once."""
    done = cluster.lanloom("dummy", "show", "f-podless")
    text = " ".join(done.output.split())
    assert row(done, "node1")[:2] == ["node1", "NoPod"]
    assert "kubectl -n lanloom-system describe daemonset dummy-f-podless" in text
    assert text.count("0 of 2 nodes have the bridge") == 1
    assert "Ready: False NodesPending" in text
    assert is_tidy(done)


def test_show_nodes_that_take_the_bridge_away(cluster: Cluster) -> None:
    """A node whose bridge is gone says so, the other one why not."""
    done = cluster.lanloom("dummy", "show", "e-going")
    assert row(done, "node1") == ["node1", "Gone"]
    assert row(done, "node2")[1:4] == ["Running", "dummy-br", "has"]


def test_an_unknown_name(cluster: Cluster) -> None:
    """A name that no network has is answered with those that there are; hostile ones are quoted."""
    done = cluster.lanloom("dummy", "show", "x\x1b[31m")
    assert done.exit_code == 1
    assert (
        'DummyClusterNetwork "x\\u001b[31m" does not exist; existing networks are a-ready, b-new'
        in done.output
    )


def test_completion(cluster: Cluster) -> None:
    """A shell completes the names of networks."""
    assert cluster.offered("lanloom dummy show a") == ["plain,a-ready"]
