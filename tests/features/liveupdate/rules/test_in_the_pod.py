"""What a NIC has besides its port: rules of the node that name it, and addresses with which KubeVirt answers."""

import json

import pytest
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.kubevirt import STARTED_WITH
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, NetworkAttachmentDefinition
from lanloom.features.liveupdate.rules.launcher import attached_of, pod_interface, renamed, started_with
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.networks import Networks
from lanloom.features.liveupdate.rules.preflight import check
from tests.features.liveupdate.rules.test_preflight import LAN_TARGET, facts, lan, machine, nad, pod

FULL, COMPANION, RESTART = (
    Mode("full", "none"),
    Mode("companion", "1.9"),
    Mode("restart", "1.7", hint="update"),
)
PLAIN, GUARDED = nad("vlan10", vlan=10), nad("vlan10", vlan=10, macspoofchk=True)


@pytest.mark.parametrize("source", [PLAIN, GUARDED], ids=["from plain", "from guarded"])
@pytest.mark.parametrize(
    ("target", "guarded"),
    [
        (nad("vlan20", vlan=20), False),
        (nad("vlan20", vlan=20, macspoofchk=False), False),
        (nad("vlan20", vlan=20, macspoofchk=True), True),
        (LAN_TARGET, False),
    ],
    ids=["to plain", "to plain, said", "to guarded", "to a LAN"],
)
def test_rules_that_name_the_port(
    source: NetworkAttachmentDefinition, target: NetworkAttachmentDefinition, guarded: bool
) -> None:
    """A port moves between two NADs that both want macspoofchk, or neither; any other pair is refused."""
    found = check(facts(source=source, target=target, networks=Networks(lans=(lan(),))))
    alike = (source is GUARDED) == guarded
    assert (found.against_in_place == ()) == alike
    assert (
        alike
        or "default/vlan10 and default/vlan20: spec.config.macspoofchk is set in one of them"
        in found.against_in_place[0]
    )
    assert found.against_migration == ()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("ips", [[], ["10.71.0.1"], ["fd00::7"], ["fd00::7", "10.71.0.1"], "?"], ids=str)
@pytest.mark.parametrize(
    "mode", [FULL, COMPANION, RESTART, None], ids=["full", "companion", "restart", "unknown"]
)
def test_addresses_that_kubevirt_answers_with(mode: Mode | None, ips: object, force: bool) -> None:
    """With KubeVirt, a NIC whose IPv4 address its launcher gives by DHCP moves by force only: it would keep it."""
    move = facts(pod=pod(ips=ips), mode=mode, force=force, until_restart=True)
    if mode is RESTART:
        move = facts(pod=pod(ips=ips), mode=COMPANION, force=force)
    refused = (
        mode not in (FULL, None) and "10.71.0.1" in ips and not force if isinstance(ips, list) else False
    )
    against = check(move).against_in_place
    assert bool(against) == refused
    assert (
        not refused
        or "answers DHCP requests of the NIC lan0 with 10.71.0.1, its address at the start" in against[0]
    )


def moved(found: Pod, nad: str, ips: list[str]) -> Pod:
    """A launcher pod whose NIC was moved to a NAD, with addresses there."""
    operations = renamed(found, pod_interface(machine(), "lan0"), Key("default", nad), {"ips": ips})
    values = {item["path"].rpartition("/")[2].replace("~1", "/"): item["value"] for item in operations[1:]}
    return replace(found, metadata=replace(found.metadata, annotations=found.metadata.annotations | values))


@pytest.mark.parametrize("first", [[], ["10.71.0.1"], ["fd00::7"]], ids=str)
@pytest.mark.parametrize("now", [[], ["10.72.0.2"]], ids=str)
def test_what_a_launcher_was_started_with(first: list[str], now: list[str]) -> None:
    """With the addresses of its start a launcher answers after any moves, and with no others."""
    there = moved(pod(ips=first), "vlan20", ["10.73.0.3"])
    there = moved(moved(there, "vlan30", now), "vlan10", now)
    against = check(facts(pod=there, mode=COMPANION)).against_in_place
    assert bool(against) == ("10.71.0.1" in first)
    assert all("requests of the NIC lan0 with 10.71.0.1" in text for text in against)


def plugged(found: Pod, **entry: object) -> Pod:
    """A launcher pod whose NIC was unplugged, and another one plugged in under its name."""
    interface, text = pod_interface(machine(), "lan0"), found.metadata.annotations[NETWORK_STATUS]
    entries = [item | entry if item["interface"] == interface else item for item in json.loads(text)]
    marks = found.metadata.annotations | {NETWORK_STATUS: json.dumps(entries)}
    return replace(found, metadata=replace(found.metadata, annotations=marks))


@pytest.mark.parametrize(
    "entry",
    [{"name": "default/vlan30"}, {"mac": "02:00:00:00:00:99"}, {"ips": ["10.73.0.4"]}, {"ips": []}],
    ids=["another NAD", "another MAC address", "another address", "no address"],
)
def test_another_nic_under_the_name(entry: dict[str, object]) -> None:
    """A NIC that is plugged in under the name of one that moved was started with its own addresses."""
    there = moved(pod(ips=["10.71.0.1"]), "vlan20", ["10.73.0.3"])
    interface = pod_interface(machine(), "lan0")
    assert started_with(there, interface) == ("10.71.0.1",)
    other = plugged(there, **entry)
    own = tuple(attached_of(other, interface).ips)
    assert started_with(other, interface) == own
    assert started_with(moved(other, "vlan40", ["10.74.0.4"]), interface) == own


@pytest.mark.parametrize(
    "text", ["", "[", "7", '{"pod16477688c0e": {"ips": 7, "moved": 7}}', '{"pod16477688c0e": "x"}']
)
def test_an_annotation_that_somebody_else_wrote(text: str) -> None:
    """Where what the pod was started with can't be read, Multus' report counts, as for one that never moved."""
    there = pod(ips=["10.71.0.1"])
    marked = replace(
        there,
        metadata=replace(there.metadata, annotations=there.metadata.annotations | {STARTED_WITH: text}),
    )
    assert check(facts(pod=marked, mode=COMPANION)).against_in_place
