"""Metrics, their table in docs/operations.md and the alert rules in deploy/ name the same things."""

import json
import random
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.nads.references import NadUse
from lanloom.processes.metrics import AgentMetrics
from lanloom.runtime.exposition import CollectorRegistry
from lanloom.runtime.metrics import ProcessMetrics
from lanloom_embedded.serve import ServeMetrics

ROOT = Path(__file__).parents[3]
OPERATIONS = ROOT / "docs/operations.md"
NAME = re.compile(r"\blanloom_[a-z_]+\b")
HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")
SUFFIXES = {"counter": "_total", "info": "_info"}


def families(registry: CollectorRegistry) -> dict[str, str]:
    """Lanloom's metrics as Prometheus stores them, histograms without a suffix; name → help."""
    return {
        family.name + SUFFIXES.get(family.type, ""): family.documentation
        for family in registry.collect()
        if family.name.startswith("lanloom_")
    }


def agent() -> ProcessMetrics:
    """What an agent shows."""
    metrics = AgentMetrics()
    metrics.follow((), ())
    return metrics


def server() -> ProcessMetrics:
    """What `lanloom serve` shows, which is all of the manager's and more."""
    metrics = ServeMetrics(manager=True)
    metrics.follow((), ())
    nobody, rng = cast(Client, None), random.Random(0)
    metrics.features["vlan"].show(
        Informer(nobody, CLUSTER_NETWORKS, rng=rng),
        Informer(nobody, CLUSTER_NETWORK_NODES, rng=rng),
    )
    metrics.features["ipam"].show(Informer(nobody, NETWORKS, rng=rng), Informer(nobody, NICS, rng=rng))
    metrics.features["dummy"].show(Informer(nobody, DUMMY_CLUSTER_NETWORKS, rng=rng), cast(NadUse, None))
    metrics.features["lan"].show(Informer(nobody, LANS, rng=rng))
    metrics.features["liveupdate"].show(
        Informer(nobody, NETWORK_SWAPS, rng=rng),
        Informer(nobody, VIRTUAL_MACHINE_INSTANCES, rng=rng),
        lambda: "full",
    )
    return metrics


def shown() -> dict[str, str]:
    """Every metric there is."""
    return families(agent().registry) | families(server().registry)


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    documents = yaml.load_all((ROOT / "deploy/alerts.yaml").read_text(), yaml.CSafeLoader)
    groups = [group for document in documents for group in document["spec"].get("groups", ())]
    return [rule for group in groups for rule in group["rules"]]


def test_every_metric_is_in_the_table_once() -> None:
    """The tables of docs/operations.md have a row for each metric, and none for another."""
    rows = re.findall(r"^\| `(lanloom_[a-z_]+)` \|", OPERATIONS.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(shown())


def test_the_text_names_only_metrics_that_exist() -> None:
    """Whatever the documentation calls a metric is one."""
    assert set(NAME.findall(OPERATIONS.read_text())) <= shown().keys()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_are_about_metrics_that_exist(rule: dict[str, Any]) -> None:
    """An alert's expression and its advice use metrics that some process shows."""
    for name in NAME.findall(f"{rule['expr']} {rule['annotations']}"):
        base = next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), name)
        assert base in shown(), name


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    """An alert has a severity, a summary and an action."""
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "action"}
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_a_lease_has_not_expired_while_its_address_is_there() -> None:
    """The end of a lease does not follow the node's clock, so the alert asks whether an address is missing, too."""
    (found,) = (rule["expr"] for rule in rules() if rule["alert"] == "LanloomLeaseExpired")
    expiry, ready = found.split(" and on (instance, cluster_network) ")
    assert expiry == "lanloom_agent_dhcp_lease_expiry_timestamp_seconds < time()"
    assert ready == 'lanloom_agent_network_ready{condition="L3Ready"} == 0'


def labels() -> dict[str, set[str]]:
    """The labels of each metric, as docs/operations.md has them."""
    rows = re.findall(r"^\| `(lanloom_[a-z_]+)` \|([^|]*)\|", OPERATIONS.read_text(), re.MULTILINE)
    return {name: {label.strip() for label in listed.split(",")} for name, listed in rows}


def curves() -> list[tuple[str, str]]:
    """Legend and query of all curves of Grafana's dashboards, as Grafana reads them."""
    boards = [json.loads(path.read_text()) for path in (ROOT / "deploy/dashboards").iterdir()]
    targets = [target for board in boards for panel in board["panels"] for target in panel["targets"]]
    return sorted((target["legendFormat"], target["expr"]) for target in targets)


@pytest.mark.parametrize(("legend", "query"), curves())
def test_dashboards_are_about_metrics_and_labels_that_exist(legend: str, query: str) -> None:
    """A curve is of metrics that exist, by labels that these have, and its legend shows labels by which it is split."""
    known = labels()
    names = [re.sub(r"_(bucket|count)$", "", name) for name in NAME.findall(query)]
    assert names and set(names) <= known.keys()
    split = {label for found in re.findall(r"by \(([^)]*)\)", query) for label in found.split(", ")}
    assert split <= set.intersection(*(known[name] for name in names)) | {"le", "pod"}
    assert set(re.findall(r"{{(\w+)}}", legend)) == split - {"le"}
    assert query.count("(") == query.count(")")


def test_names_follow_the_conventions() -> None:
    """Names begin with the program's, have base units, and each metric has a help text that is a sentence."""
    for name, text in shown().items():
        assert re.fullmatch(r"lanloom(_[a-z]+)+", name)
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb)\b", name)
        assert text.endswith("."), name


def test_an_agent_shows_no_more_series_for_more_vlans() -> None:
    """Series are for cluster networks and reasons, never for single VLANs or addresses."""

    def series(count: int) -> int:
        metrics = AgentMetrics()
        interfaces = tuple(
            VlanInterface(vlan_id=vid, name=f"x.{vid}", network=f"default/n{vid}", state="Ready", address="a")
            for vid in range(1, count + 1)
        )
        metrics.features["vlan"].report(
            {"cluster-1": ClusterNetworkNodeStatus(cluster_network="cluster-1", interfaces=interfaces)}
        )
        return sum(len(family.samples) for family in metrics.registry.collect())

    assert series(4000) == series(1)
