"""What the chart tells Prometheus and Grafana, against the pods that it makes with the same values."""

import json
from typing import Any

import pytest

from lanloom.processes.chart import source
from lanloom.processes.chart.values import merged
from lanloom.runtime.probes import pages
from tests.processes.chart.sets import documents, value_sets

Raw = dict[str, Any]
PROCESSES = {"lanloom-manager", "lanloom-agent", "lanloom-lan"}


def made(name: str, **monitoring: bool) -> list[Raw]:
    """The objects of a set of values, with monitoring as it is said."""
    values = merged(value_sets()[name], {"monitoring": monitoring})
    return [item for text in dict(source.rendered(values)).values() for item in documents(text)]


def selects(selector: Raw, labels: Raw) -> bool:
    """Whether a label selector of matchLabels and of `In` chooses an object with these labels."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    rules = selector.get("matchExpressions", [])
    assert {rule["operator"] for rule in rules} <= {"In"}
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(labels.get(rule["key"]) in rule["values"] for rule in rules)


@pytest.mark.parametrize("name", value_sets())
def test_the_pod_monitor_finds_each_process(name: str) -> None:
    """It selects the pods of all processes and no others, in their namespace, by a port that each of them names."""
    objects = made(name, enabled=True)
    (monitor,) = [item for item in objects if item["kind"] == "PodMonitor"]
    places = (
        monitor["spec"].get("namespaceSelector", {}).get("matchNames", [monitor["metadata"]["namespace"]])
    )
    chosen = {
        item["metadata"]["name"]: item["spec"]["template"]
        for item in objects
        if "template" in item.get("spec", {})
        and item["metadata"]["namespace"] in places
        and selects(monitor["spec"]["selector"], item["spec"]["template"]["metadata"]["labels"])
    }
    there = {item["metadata"]["name"] for item in objects if item["kind"] in ("Deployment", "DaemonSet")}
    assert set(chosen) == PROCESSES & there
    assert {"lanloom-manager", "lanloom-agent"} <= set(chosen)
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint.get("path", "/metrics") in pages(tuple, bytes)
    assert endpoint.get("scheme", "http") == "http"
    for template in chosen.values():
        ports = {port["name"]: port for each in template["spec"]["containers"] for port in each["ports"]}
        assert ports[endpoint["port"]].get("protocol", "TCP") == "TCP"
        assert set(monitor["spec"]["podTargetLabels"]) <= set(template["metadata"]["labels"])


@pytest.mark.parametrize("name", value_sets())
def test_the_dashboards_are_found(name: str) -> None:
    """They are in a ConfigMap that Grafana's sidecar finds by its label, each a whole board with a name of its own."""
    (boards,) = [
        item for item in made(name, dashboards=True) if item["metadata"]["name"] == "lanloom-dashboards"
    ]
    assert boards["kind"] == "ConfigMap"
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    for file, text in boards["data"].items():
        board = json.loads(text)
        assert file == f"{board['uid']}.json"
        assert board["panels"]
    assert not [item for item in made(name, enabled=False, dashboards=False) if item["kind"] == "PodMonitor"]
