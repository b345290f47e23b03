"""The labels that the mutating webhook derives."""

import json

from lanloom.api import names
from lanloom.api.multus import NADS
from tests.features.vlan.admission.requests import Raw, admission
from tests.harness.admission import request


def labels_after(new: Raw, old: Raw | None = None) -> dict[str, str]:
    """The labels of a NAD after the mutating webhook, without the prefix."""
    labels = dict(new["metadata"].get("labels", {}))
    for operation in admission().mutate(request(NADS, new, old)).patch:
        if operation["path"] == "/metadata/labels":
            labels = dict(operation["value"])
            continue
        key = operation["path"].removeprefix("/metadata/labels/").replace("~1", "/").replace("~0", "~")
        if operation["op"] == "remove":
            del labels[key]
        else:
            labels[key] = operation["value"]
    return {key.removeprefix(names.PREFIX): value for key, value in labels.items()}


def bare_nad(config: Raw | str, **labels: str) -> Raw:
    """A NAD with these labels only."""
    text = config if isinstance(config, str) else json.dumps(config)
    metadata = {
        "name": "net",
        "namespace": "default",
        "labels": {names.PREFIX + k: v for k, v in labels.items()},
    }
    return {"kind": "NetworkAttachmentDefinition", "metadata": metadata, "spec": {"config": text}}


VLAN = {"type": "bridge", "bridge": "cluster-1-br", "vlan": 2012}
DERIVED = {"clusternetwork": "cluster-1", "type": "L2VlanNetwork", "vlan-id": "2012"}


def test_labels_are_filled_in() -> None:
    """Labels that the configuration implies are added to those that are there."""
    assert labels_after(bare_nad(VLAN)) == DERIVED
    assert labels_after(bare_nad(VLAN, ready="true")) == DERIVED | {"ready": "true"}
    assert labels_after(bare_nad({"type": "kube-ovn"})) == {"type": "OverlayNetwork"}
    assert labels_after(bare_nad("{")) == {}
    assert labels_after(bare_nad(VLAN | {"bridge": "../x-br"})) == {
        "type": "L2VlanNetwork",
        "vlan-id": "2012",
    }
    assert labels_after(bare_nad({"type": "macvlan"})) == {}


def test_labels_follow_the_configuration() -> None:
    """An edit of the configuration takes the derived labels along; what a user wrote stays for the rules to judge."""
    old = bare_nad(VLAN, **DERIVED)
    assert labels_after(bare_nad(VLAN | {"vlan": 7}, **DERIVED), old)["vlan-id"] == "7"
    untagged = labels_after(bare_nad(VLAN | {"vlan": 0}, **DERIVED), old)
    assert untagged == {"clusternetwork": "cluster-1", "type": "UntaggedNetwork"}
    wrong = bare_nad(VLAN | {"vlan": 7}, **DERIVED | {"vlan-id": "8"})
    assert labels_after(wrong, old)["vlan-id"] == "8"
