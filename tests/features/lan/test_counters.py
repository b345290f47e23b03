"""Counters of a LAN's spokes, as they are read from its agents: whose right decides, and what an agent may answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod, PodSpec, PodStatus
from lanloom.api.lan import LAN_NODES, LANS, LANNode, LANNodeStatus, Spoke
from lanloom.api.meta import ObjectMeta
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.lan.counters import (
    AT_ONCE,
    MOST_NODES,
    NO_AGENT,
    LanCounters,
    Silent,
    SpokeCounters,
    agents_of,
    counters_in,
    read_counters,
    size,
)
from lanloom.features.lan.rules.observed import Traffic
from lanloom.kube.errors import Forbidden, Unreachable
from lanloom.kube.ports import Listing, Reader
from lanloom.refusals import Denied
from tests.console.agents import exposition
from tests.features.lan.samples import entry, lan

LAN = lan("blue")
SEEN = SpokeCounters(
    spoke="web",
    node="n1",
    mode="veth",
    bytes_sent=900,
    bytes_received=1_234_567,
    frames_sent=7,
    frames_received=1200,
    dropped_sent=1,
    dropped_received=2,
    refused={"port-security": 5, "isolation": 0},
)


def agent(node: str, **changes: Any) -> Pod:
    """The pod of a node's agent."""
    meta = ObjectMeta(
        name=f"agent-{node}", namespace=LANLOOM_NAMESPACE, annotations={"prometheus.io/port": "9811"}
    )
    return replace(
        Pod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase="Running")), **changes
    )


def carrier(node: str) -> LANNode:
    """The report of a node on which a spoke is attached."""
    attached = entry(LAN, spokes=(Spoke(name="a", mode="veth"),))
    return LANNode(metadata=ObjectMeta(name=node), status=LANNodeStatus(lans=(attached,)))


class Cluster(Reader):
    """A cluster with the LAN on so many nodes, whose agents' pods give these answers; others have no pod."""

    def __init__(self, nodes: int, answers: Mapping[str, str | Exception]) -> None:
        self.answers = answers
        self.objects: dict[Any, Any] = {
            LANS: (LAN,),
            LAN_NODES: tuple(carrier(f"n{number}") for number in range(1, nodes + 1)),
            PODS: tuple(agent(node) for node in answers),
        }
        self.asked: list[str] = []
        self.busy = self.busiest = 0

    async def get(self, resource: Any, name: str, namespace: str = "") -> Any:
        """Nothing is read by its name."""
        raise AssertionError(name)

    async def list(self, resource: Any, namespace: str = "", *, labels: str = "", fields: str = "") -> Any:
        """Pods are listed in the agents' namespace alone."""
        assert resource is not PODS or (namespace, labels) == (
            LANLOOM_NAMESPACE,
            "app.kubernetes.io/name=lanloom-lan",
        )
        found = self.objects[resource]
        if isinstance(found, Exception):
            raise found
        return Listing(found, "1")

    async def ask_pod(self, namespace: str, pod: str, path: str) -> str:
        """Answer after all others that may be asked at the time."""
        assert (namespace, path) == (LANLOOM_NAMESPACE, "metrics") and pod.endswith(":9811")
        self.asked.append(pod)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        for _ in range(20):
            await asyncio.sleep(0)
        self.busy -= 1
        answer = self.answers[pod.removeprefix("agent-").removesuffix(":9811")]
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(what: str) -> Forbidden:
    """The API server's word on a right that is missing."""
    return Forbidden(403, "Forbidden", f"may not {what}")


def test_what_an_agent_counts_is_read() -> None:
    """Of an agent's metrics the counters of one LAN are taken, each where it belongs; others' stay out."""
    text = exposition("default/blue", "default/blu", "other/blue")
    assert counters_in(text, "default/blue", "n1") == [SEEN]
    assert counters_in(text, "default/red", "n1") == []


def test_large_numbers_stay_whole() -> None:
    """Counters that Prometheus writes with an exponent are numbers as others are."""
    text = exposition("default/blue", traffic=Traffic((1, 2), (3 * 10**17, 2**52 + 1), (0, 0)))
    (found,) = counters_in(text, "default/blue", "n1")
    assert (found.bytes_sent, found.bytes_received) == (3 * 10**17, 2**52 + 1)


HATEFUL = 'lanloom_agent_lan_spoke_bytes_total{{namespace="default",lan="blue",spoke="a",mode="veth",direction="in"{}'


@pytest.mark.parametrize(
    "rest",
    [
        "} NaN",
        "} +Inf",
        "} -1",
        "} 1 1 1",
        "}",
        "",
        ',x="\\"} 1',
        "} 1{} 2",
        "} " + "9" * 400,
        ',direction="sideways"} 1',
    ],
)
def test_lines_that_are_none_are_left_out(rest: str) -> None:
    """A line that no agent writes counts for nothing, and the others are read."""
    text = exposition("default/blue") + HATEFUL.format(rest) + "\n"
    assert [item for item in counters_in(text, "default/blue", "n1") if item.spoke == "web"] == [SEEN]


@pytest.mark.parametrize("text", ["", "<html>", "lanloom_agent_", "go_threads 8\n"])
def test_an_answer_of_others_is_none(text: str) -> None:
    """What does not look like the metrics of an agent is refused: nothing was counted there is another answer."""
    with pytest.raises(ValueError, match="not that of an agent"):
        counters_in(text, "default/blue", "n1")


def test_numbers_too_large_are_an_agents_fault() -> None:
    """A number that no machine can hold makes the agent silent, and no error of ours."""
    text = exposition("default/blue") + HATEFUL.format("} 1e999") + "\n"
    found = asyncio.run(read_counters(Cluster(1, {"n1": text}), "blue"))
    assert [item.node for item in found.silent] == ["n1"]


def test_every_agent_is_asked_and_each_silent_one_is_named() -> None:
    """Counters of all nodes come together; a node whose agent is away or has no pod is named with the reason."""
    away = Unreachable("connection refused")
    found = asyncio.run(read_counters(Cluster(3, {"n1": exposition("default/blue"), "n2": away}), "blue"))
    silent = (Silent("n2", "its agent tells nothing: connection refused"), Silent("n3", NO_AGENT))
    assert found == LanCounters(lan="default/blue", spokes=(SEEN,), silent=silent)
    assert found.remarks() == tuple(f"{item.node}: {item.message}" for item in silent)
    assert msgspec.json.decode(msgspec.json.encode(found))["spokes"][0]["bytesReceived"] == 1_234_567


def test_few_are_asked_at_a_time_and_not_all() -> None:
    """At most so many agents are asked, few of them at a time, and it is said how many were left out."""
    cluster = Cluster(40, {f"n{number}": exposition("default/blue") for number in range(1, 41)})
    found = asyncio.run(read_counters(cluster, "blue"))
    assert (len(cluster.asked), cluster.busiest) == (MOST_NODES, AT_ONCE)
    assert (len(found.spokes), found.left_out) == (MOST_NODES, 40 - MOST_NODES)
    assert found.remarks() == ("8 more nodes were not asked: see Prometheus.",)


def test_the_missing_right_is_named() -> None:
    """Who may not list pods, or not ask them, gets one line that names the right; few are asked in vain."""
    cluster = Cluster(40, {f"n{number}": refused("get pods/proxy") for number in range(1, 41)})
    found = asyncio.run(read_counters(cluster, "blue"))
    assert (found.spokes, found.silent, found.missing) == ((), (), "get pods/proxy")
    assert len(cluster.asked) <= AT_ONCE
    cluster.objects[PODS] = refused("list pods")
    found = asyncio.run(read_counters(cluster, "blue"))
    assert found.missing == "list pods"
    assert found.remarks() == (
        "Agents are asked with your own rights. You may not list pods in lanloom-system.",
    )


def test_without_spokes_nobody_is_asked() -> None:
    """A LAN at which nothing is attached has no counters, and takes no right."""
    cluster = Cluster(0, {})
    cluster.objects[PODS] = refused("list pods")
    assert asyncio.run(read_counters(cluster, "default/blue")) == LanCounters(lan="default/blue")
    with pytest.raises(Denied, match="there is no LAN"):
        asyncio.run(read_counters(cluster, "default/none"))


def test_the_pod_that_runs_is_asked() -> None:
    """A pod that has ended, is deleted or has no node is not asked; a port that is no number is left out."""
    ended = agent("n1", status=PodStatus(phase="Failed"))
    going = agent("n1", metadata=replace(agent("n1").metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    odd = agent("n2", metadata=ObjectMeta(name="odd", annotations={"prometheus.io/port": "../x"}))
    nowhere = agent("", spec=PodSpec())
    assert agents_of([agent("n1"), ended, going, odd, nowhere]) == {"n1": "agent-n1:9811", "n2": "odd"}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_700, "1 MB"),
        (1_234_567, "1.23 MB"),
        (2 * 10**15, "2,000.000 TB"),
    ],
)
def test_sizes_for_people(number: int, text: str) -> None:
    """Bytes are shown with three digits and the unit that fits."""
    assert size(number) == text
