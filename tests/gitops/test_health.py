"""Argo CD's health checks and kstatus agree on what Lanloom's conditions say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.argocd import checked, script, settings
from tests.gitops.health import argo, kstatus

Raw = dict[str, Any]


def an_object(
    *conditions: tuple[str, str, str], observed: int | None = 2, kind: str = "LAN", **meta: Any
) -> Raw:
    """An object of generation 2 with these conditions: type, status, reason."""
    found = [
        {"type": type, "status": status, "reason": reason, "message": "why"}
        for type, status, reason in conditions
    ]
    status: Raw = {"conditions": found} if found else {}
    if observed is not None and found:
        status["observedGeneration"] = observed
    return {"kind": kind, "metadata": {"name": "a", "generation": 2, **meta}, "status": status}


READY, WAITING = ("Ready", "True", "Ready"), ("Ready", "False", "NodesNotReady")
STALLED = ("Stalled", "True", "BadSpec")


@pytest.mark.parametrize(
    ("obj", "health", "status"),
    [
        (an_object(READY), "Healthy", "Current"),
        (an_object(WAITING), "Progressing", "InProgress"),
        (an_object(("Ready", "Unknown", "x")), "Progressing", "InProgress"),
        (an_object(WAITING, STALLED), "Degraded", "Failed"),
        (an_object(READY, observed=1), "Progressing", "InProgress"),
        (an_object(WAITING, STALLED, observed=1), "Progressing", "InProgress"),
        (an_object(READY, deletionTimestamp="2026-01-01T00:00:00Z"), "Progressing", "Terminating"),
    ],
)
def test_health_of_a_kind_with_ready(obj: Raw, health: str, status: str) -> None:
    """Healthy is Current, Degraded is Failed, and anything that may still come true is in progress."""
    assert (argo(obj)[0], kstatus(obj)) == (health, status)


@pytest.mark.parametrize(
    ("conditions", "health"),
    [
        ([], "Progressing"),
        ([("ready", "True", "AllNodesReady"), ("L3Ready", "True", "AllNodesReady")], "Healthy"),
        ([("ready", "True", "AllNodesReady"), ("L3Ready", "False", "AddressConflict")], "Degraded"),
        ([("ready", "True", "AllNodesReady"), ("L3Ready", "False", "AwaitingAddress")], "Progressing"),
        ([("ready", "False", "NoNodes"), ("L3Ready", "False", "NoNodes")], "Progressing"),
        ([("ready", "False", "UplinkMissing"), ("L3Ready", "False", "UplinkMissing")], "Degraded"),
        ([("ready", "True", "AllNodesReady")], "Healthy"),
    ],
)
def test_health_of_a_cluster_network(conditions: list[tuple[str, str, str]], health: str) -> None:
    """Of Harvester's `ready` and L3Ready the worse counts; what passes by itself is in progress."""
    assert argo(an_object(*conditions, observed=None, kind="ClusterNetwork"))[0] == health


def test_the_reason_is_shown() -> None:
    """Argo CD shows reason and message of the condition."""
    assert argo(an_object(WAITING)) == ("Progressing", "NodesNotReady: why")


def test_the_settings_have_each_kind_with_conditions() -> None:
    """The shipped patch has the same check for each kind whose conditions say how it fares."""
    text = (Path(__file__).parents[2] / "deploy/argocd/health.yaml").read_text()
    assert text == settings()
    data = yaml.safe_load(text)["data"]
    assert data == {f"resource.customizations.health.{kind}": script() for kind in checked()}
    assert {"lan.k8slan.io_LAN", "ipam.lanloom.io_Network", "network.harvesterhci.io_ClusterNetwork"} <= {
        *checked()
    }
