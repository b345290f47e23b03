"""The launcher pod of a machine, and its annotations when a NIC of it has moved."""

import json
from typing import Any

import msgspec
import pytest

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.meta import Key
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS, NetworkAttachmentDefinition
from lanloom.features.liveupdate.rules.launcher import (
    RESULT_FIELDS,
    UnreadableStatus,
    attached_of,
    from_text,
    launcher_of,
    renamed,
    reported_result,
    result_on,
)

Raw = dict[str, Any]

NIC = "pod1"
ENTRY = {"name": "own/a", "interface": NIC, "mac": "02:00:00:00:00:01", "dns": {}, "extra": [1]}
OTHER = {"name": "cbr0", "interface": "eth0", "default": True}
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "u"}


def pod(
    status: Any = (OTHER, ENTRY), networks: str | None = None, name: str = "p", node: str = "n1", **more: Any
) -> Pod:
    """A launcher pod."""
    annotations = {NETWORK_STATUS: status if isinstance(status, str) else json.dumps(status)}
    annotations |= {MULTUS_NETWORKS: networks} if networks is not None else {}
    meta = {
        "name": name,
        "namespace": "own",
        "uid": name,
        "annotations": annotations,
        "ownerReferences": [OWNER],
    }
    body = {"metadata": meta | more, "spec": {"nodeName": node}, "status": {"phase": "Running"}}
    return msgspec.convert(body, Pod)


def applied(found: Pod) -> dict[str, str]:
    """The annotations that a patch replaces, after it; it is of the version of the pod that was read."""
    [test, *changes] = renamed(found, NIC, Key("own", "b"))
    version = found.metadata.resource_version
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    values = {item["path"]: item["value"] for item in changes}
    return {path.rpartition("~1")[2]: text for path, text in values.items()}


def test_only_the_name_changes() -> None:
    """The entry of the interface gets the new name; what is not known of it, and all others, stay."""
    assert json.loads(applied(pod())["network-status"]) == [OTHER, ENTRY | {"name": "own/b"}]


TOLD = ENTRY | {
    "ips": ["10.0.0.1"],
    "dns": {"nameservers": ["10.0.0.2"]},
    "gateway": ["10.0.0.3"],
    "mtu": 9000,
}


def config(**fields: Any) -> NetworkAttachmentDefinition:
    """A NAD of CNI's `bridge` plugin."""
    body = {"spec": {"config": json.dumps({"type": "bridge", "bridge": "b-br"} | fields)}}
    return msgspec.convert(body, NetworkAttachmentDefinition)


@pytest.mark.parametrize(
    ("before", "nad", "addresses", "mtu", "after"),
    [
        (TOLD, config(), (), 0, {"dns": {}}),
        (
            TOLD,
            config(),
            ("10.1.0.1/24", "fd00::1"),
            1450,
            {"ips": ["10.1.0.1", "fd00::1"], "dns": {}, "mtu": 1450},
        ),
        (ENTRY, config(), (), 1450, {"dns": {}}),
        (ENTRY, config(dns={"nameservers": ["1.1.1.1"]}), (), 0, {"dns": {"nameservers": ["1.1.1.1"]}}),
        (ENTRY, config(ipam={"dns": {"domain": "a"}}, dns={}), (), 0, {"dns": {"domain": "a"}}),
        (TOLD, None, (), 0, {"dns": {}}),
    ],
    ids=["nothing", "addresses", "no MTU before", "DNS", "DNS of the addresses", "no NAD any more"],
)
def test_what_is_told_of_the_new_network(
    before: Raw, nad: NetworkAttachmentDefinition | None, addresses: tuple[str, ...], mtu: int, after: Raw
) -> None:
    """Addresses, DNS, MTU and gateway are those of the new network, and those of the old one when it is undone."""
    there = pod([OTHER, before])
    kept = reported_result(there, NIC)
    operations = renamed(there, NIC, Key("own", "b"), result_on(nad, addresses, mtu, from_text(kept)))
    moved = [OTHER, {**_bare(before), "name": "own/b", **after}]
    text = next(item["value"] for item in operations if item["op"] == "replace")
    assert json.loads(text) == moved
    back = renamed(pod(moved), NIC, Key("own", "a"), from_text(kept))
    restored = json.loads(next(item["value"] for item in back if item["op"] == "replace"))
    assert restored == [OTHER, before]


def _bare(entry: Raw) -> Raw:
    return {name: value for name, value in entry.items() if name not in RESULT_FIELDS}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[{"name":"a","interface":"pod1","mac":"x"}]',
            '[{"name":"b","interface":"pod1","mac":"x","namespace":"own"}]',
        ),
        ("a@pod1, c@pod2", "own/b@pod1,c@pod2"),
        (
            '[{"name":"c"},{"name":"a","namespace":"own","interface":"pod1"}]',
            '[{"name":"c"},{"name":"b","namespace":"own","interface":"pod1"}]',
        ),
    ],
)
def test_what_was_asked_for_changes_as_well(before: str, after: str) -> None:
    """The annotation that asks for networks names the same as network-status, in the form that it has."""
    assert applied(pod(networks=before))["networks"] == after


def test_a_pod_that_says_so_already() -> None:
    """A pod that names the network already gets no patch."""
    assert renamed(pod(), NIC, Key("own", "a")) == ()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("", "is missing"),
        ("{", "is not valid JSON"),
        ("[1]", "must be a list of at most"),
        ('{"name": "own/a"}', "must be a list of at most"),
        ("[]", "has 0 entries for the interface pod1"),
        ([ENTRY, ENTRY], "has 2 entries for the interface pod1"),
        ([ENTRY | {"name": "a"}], "must be namespace/name of a NAD"),
        ([ENTRY | {"name": None}], "must be namespace/name of a NAD"),
        ("[" * 5000, "is not valid JSON"),
    ],
)
def test_a_status_that_does_not_tell(status: Any, words: str) -> None:
    """A network-status that does not tell where the NIC is names the pod and the annotation."""
    with pytest.raises(UnreadableStatus) as caught:
        attached_of(pod(status), NIC)
    assert str(caught.value).startswith("Pod own/p: metadata.annotations") and words in str(caught.value)


def test_the_pod_of_a_machine() -> None:
    """A machine runs in the pod on its node, in the active one of two, and in none that is unknown."""
    body: dict[str, Any] = {
        "metadata": {"name": "db", "namespace": "own", "uid": "u"},
        "status": {"nodeName": "n1"},
    }
    machine = msgspec.convert(body, VirtualMachineInstance)
    here, there, second = pod(), pod(name="q", node="n2"), pod(name="r")
    gone = pod(name="s", deletionTimestamp="2026-01-01T00:00:00Z")
    assert launcher_of(machine, [here, there, gone]) == here
    assert launcher_of(machine, [here, second]) is None
    assert launcher_of(machine, [there]) is None
    body["status"]["activePods"] = {"r": "n1"}
    assert launcher_of(msgspec.convert(body, VirtualMachineInstance), [here, second]) == second
