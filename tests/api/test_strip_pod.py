"""What is kept of pods."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import Pod
from lanloom.api.dummy import UID_LABEL
from lanloom.api.kubevirt import instance_of
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import strip_pod
from lanloom.nads.references import references_of


def pod(namespace: str = "own", **labels: str) -> Pod:
    """A pod with much that Lanloom does not need."""
    body: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": namespace,
            "uid": "u",
            "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "i"} | labels,
            "annotations": {
                MULTUS_NETWORKS: "a/net",
                DEFAULT_NETWORK: "b/net",
                NETWORK_STATUS: '[{"name": "c/net", "interface": "net1"}]',
                "kubevirt.io/domain": "db",
                "checksum": "1",
            },
            "finalizers": ["f"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}],
        },
        "spec": {"nodeName": "node1"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "imageID": "i"}],
        },
    }
    return msgspec.convert(body, Pod)


def test_what_is_asked_of_pods_is_kept() -> None:
    """Which networks a pod uses, whose machine runs in it, where, and whether it has ended, is as it was."""
    whole, kept = pod(), strip_pod(pod())
    assert references_of(kept) == references_of(whole)
    assert {str(key) for key in references_of(kept).networks} == {"a/net", "b/net", "c/net"}
    assert instance_of(kept) == instance_of(whole) == ("db", "i")
    assert (kept.spec, kept.status.phase) == (whole.spec, "Running")
    for name in ("key", "uid", "resource_version", "deletion_timestamp", "owner_references"):
        assert getattr(kept.metadata, name) == getattr(whole.metadata, name)


def test_what_nobody_asks_for_is_dropped() -> None:
    """Labels, annotations and reports that Lanloom does not read take no memory."""
    kept = strip_pod(pod())
    assert kept.metadata.labels.keys() == {"kubevirt.io", "kubevirt.io/created-by"}
    assert "checksum" not in kept.metadata.annotations
    assert (kept.status.conditions, kept.status.container_statuses) == ((), ())


@pytest.mark.parametrize("whole", [pod(LANLOOM_NAMESPACE), pod(**{UID_LABEL: "x"})], ids=["place", "label"])
def test_pods_of_our_own_are_kept_whole(whole: Pod) -> None:
    """The manager's own pod tells its image, and those that keep bridges whether they are ready, and why not."""
    assert strip_pod(whole) == whole
