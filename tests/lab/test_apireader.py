"""What tests read from the API server themselves is what kubectl prints."""

import json
from functools import partial
from typing import Any

import pytest

from tests.lab.apireader import ApiReader, parse
from tests.lab.driver import Lab, eventually
from tests.lab.objects import vm_network

FORMS = (
    "get nodes -o json",
    "get node node1 -o json",
    "get node node1 --output=name",
    "get no -o name",
    "get pods -A -o json",
    "get pods -n default -o name",
    "get clusternetworks,vlanconfigs,net-attach-def -o json",
    "get networks.ipam.lanloom.io,nics,lans -A -o name",
    "get clusternetworknodes -o json",
    "get net-attach-def seen -o json",
    "get network-attachment-definitions seen --namespace=default --output json",
    "get net-attach-def absent --ignore-not-found -o json",
    "get validatingwebhookconfigurations -o name",
    "get namespaces,lans,dcn,ipnet,net-attach-def --all-namespaces -o name",
)

LEFT = (
    "get nodes",
    "get nodes -o wide",
    "get nodes -o jsonpath={.items}",
    "get pods -l app=one -o name",
    "get nodes node1 node2 -o json",
    "get pod,node one -o json",
    "get pod/one -o json",
    "get --raw /readyz",
    "get -f file -o json",
    "get pods --watch -o name",
    "delete nodes --all",
    "wait node node1 --for=condition=ready",
)


@pytest.mark.parametrize("form", FORMS)
def test_common_forms(form: str) -> None:
    """The common forms of `kubectl get` are read in the process of the tests."""
    assert parse(tuple(form.split()))


@pytest.mark.parametrize("form", LEFT)
def test_other_forms(form: str) -> None:
    """What is not a common form of `kubectl get` is left to kubectl."""
    assert parse(tuple(form.split())) is None


def read(printed: str) -> Any:
    """The objects that are printed as JSON, or the lines; a list without its own metadata, which has nothing."""
    if not printed.startswith("{"):
        return printed.splitlines()
    found = json.loads(printed)
    return found["items"] if found["kind"] == "List" else found


def is_the_same(lab: Lab, reader: ApiReader, words: list[str]) -> bool:
    """Whether the reader answers, and as kubectl does."""
    ours = reader.get(words)
    return ours is not None and read(ours) == read(lab.run_kubectl(*words))


@pytest.mark.lab
def test_the_same_is_seen(cluster: Lab) -> None:
    """What is read of the API server is what kubectl prints, and what the server refuses is left to kubectl."""
    cluster.apply(vm_network("seen", "cluster-1", 2012))
    reader = ApiReader(cluster.state / "kubeconfig")
    for form in FORMS:
        # Nodes report and renew meanwhile.
        eventually(partial(is_the_same, cluster, reader, form.split()))
    assert reader.get(["get", "net-attach-def", "absent", "-o", "json"]) is None
    assert reader.get(["get", "unknown", "-o", "json"]) is None
