"""NICs that can't be, and addresses that they can't get."""

from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.api.ipam import NETWORKS, NICS, NODE_LABEL
from tests.features.ipam.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.ipam.admission.requests import (
    AGENT,
    MANAGER,
    Present,
    Raw,
    deleted,
    granting,
    holding,
    network,
    nic,
    subnet,
    uid_of,
    verdict_of,
    with_status,
)
from tests.harness.admission import request

WEB = {"kind": "Instance", "name": "web"}
NOTHING = {"gateway": None, "pools": None, "external": None, "uuid": None}


def shape(message: str, /, *ips: str, **more: Any) -> Case:
    """A NIC that is refused whatever the cluster is like."""
    return Case(request(NICS, nic("web-0", *ips, **more)), (), message)


SHAPE_CASES: Cases = {
    "a NIC can be read": Case(
        request(NICS, {"metadata": {"name": "web-0", "namespace": "default"}, "spec": {}}),
        (),
        "can't read Nic web-0 because Object missing required field `owner` - at `$.spec`",
    ),
    "an owner is of a known kind": shape(
        (
            'Nic default/web-0: spec.owner.kind: "Deployment" is not a kind of owner; choose one of '
            "Instance, VirtualMachine, Pod, Node"
        ),
        owner={"kind": "Deployment", "name": "web"},
    ),
    "an owner has a name": shape(
        (
            'Nic default/web-0: spec.owner.name: "web 1" is not a name; use letters, digits, dots, dashes '
            "and underscores"
        ),
        owner={"kind": "Instance", "name": "web 1"},
    ),
    "the NIC of a node's pod is held from the beginning": Case(
        request(NICS, nic(meta={"labels": {NODE_LABEL: "node1"}, "finalizers": []})),
        (),
        "Nic default/web-0: metadata.finalizers: ipam.lanloom.io/addresses is missing, which a NIC with label "
        "ipam.lanloom.io/node must have from the beginning; add it, or omit the label",
    ),
    "a NIC is kept for a period": Case(
        request(NICS, nic(meta={"annotations": {"ipam.lanloom.io/sticky-for": "400d"}})),
        (),
        'Nic default/web-0: annotation ipam.lanloom.io/sticky-for: "400d" is not a period; write a number with s, m, '
        "h or d, such as 12h, up to 366d",
    ),
    "the uid of an owner is a word": shape(
        'Nic default/web-0: spec.owner.uid: "a b" is not a uid; use the uid of the owner',
        owner=WEB | {"uid": "a b"},
    ),
    "a MAC address is one": shape(
        (
            'Nic default/web-0: spec.mac: "aa:00" is not a MAC address; write one such as '
            "aa:00:00:12:34:56, or auto"
        ),
        mac="aa:00",
    ),
    "a MAC address is one NIC's": shape(
        (
            'Nic default/web-0: spec.mac: "01:00:5e:00:00:01" is the MAC address of a group; the '
            "second digit of a NIC's is even"
        ),
        mac="01:00:5e:00:00:01",
    ),
    "a mode is known": shape(
        (
            'Nic default/web-0: spec.mode: "magic" is not a mode of a NIC; choose one of bridged, routed, '
            "openvswitch"
        ),
        mode="magic",
    ),
    "a VLAN id is one": shape(
        (
            'Nic default/web-0: spec.vlan: "4095" is not a VLAN id; write one from 1 to 4094, or several '
            "as .10:20:30"
        ),
        vlan="4095",
    ),
    "a UUID is one": shape(
        ('Nic default/web-0: spec.uuid: "web" is not a UUID; omit it to use the object\'s uid'),
        uuid="web",
    ),
    "a link is a word": shape(
        'Nic default/web-0: spec.link: "br 0" is not a name; use up to 253 characters without blanks',
        link="br 0",
    ),
    "a network is named as an object": shape(
        'Nic default/web-0: spec.network: "Net 1" is not the name of a Network; use metadata.name of the Network',
        network="Net 1",
    ),
    "addresses are a network's": shape(
        "Nic default/web-0: spec.ips: addresses belong to a network; name it in spec.network",
        "pool",
        network="",
    ),
    "a NIC has a reasonable number of addresses": shape(
        "Nic default/web-0: spec.ips has 65 entries; a NIC has 64 addresses at most", *["pool"] * 65
    ),
    "a request is an address or a name": shape(
        (
            'Nic default/web-0: spec.ips: "192.0.2.300" is neither an IP address nor pool, pool4, '
            "pool6 or the name of a pool; write one such as 192.0.2.10 or pool"
        ),
        "192.0.2.300",
    ),
    "an address is asked for once": shape(
        ("Nic default/web-0: spec.ips: IP 192.0.2.10 is requested twice on one NIC; remove one of them"),
        "192.0.2.10",
        "192.0.2.10",
    ),
    "what is released is an address": shape(
        (
            'Nic default/web-0: spec.release: "front" is not an IP address; write one such as '
            "192.0.2.10 or 2001:db8::10"
        ),
        "pool",
        release=["front"],
    ),
}

PRESENT: tuple[Present, ...] = ((NETWORKS, network()), (NICS, holding("db-0", "192.0.2.10")))
GRANTED = granting("db-0", "192.0.2.11")
ADDRESS_CASES: Cases = {
    "an address lies in a subnet": Case(
        request(NICS, nic("web-0", "10.0.0.1")),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: network net1 does not contain 10.0.0.1; choose one of "
            "192.0.2.0/24"
        ),
    ),
    "an address has one owner": Case(
        request(NICS, nic("web-0", "pool", "192.0.2.10")),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[1]: IP 192.0.2.10 is already used by an instance (NIC "
            "default/db-0); choose another one"
        ),
    ),
    "an address has one owner, by force too": Case(
        request(NICS, nic("web-0", "192.0.2.10", force=True)),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.10 is already used by an instance (NIC "
            "default/db-0); choose another one"
        ),
    ),
    "an address that is just given away is owned": Case(
        request(NICS, nic("web-0", "192.0.2.11")),
        ((NICS, nic("db-0", "192.0.2.11")), (NETWORKS, GRANTED)),
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.11 is already used by an instance (NIC "
            "default/db-0); choose another one"
        ),
    ),
    "what is reserved needs force": Case(
        request(NICS, nic("web-0", "192.0.2.200")),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.200 of network net1 is externally reserved; "
            "choose another one, or set spec.force"
        ),
    ),
    "the gateway needs force": Case(
        request(NICS, nic("web-0", "192.0.2.1")),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.1 of network net1 is externally reserved; "
            "choose another one, or set spec.force"
        ),
    ),
    "force that is withdrawn is judged again": Case(
        request(NICS, nic("web-0", "192.0.2.200"), nic("web-0", "192.0.2.200", force=True)),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.200 of network net1 is externally reserved; "
            "choose another one, or set spec.force"
        ),
    ),
    "another network is judged again": Case(
        request(NICS, nic("web-0", "10.0.0.1"), nic("web-0", "10.0.0.1", network="net2")),
        PRESENT,
        (
            "Nic default/web-0: spec.ips[0]: network net1 does not contain 10.0.0.1; choose one of "
            "192.0.2.0/24"
        ),
    ),
}

MINE = [(NICS, holding(f"web-{index}", f"192.0.2.{10 + index}")) for index in range(1, 3)]
SHARE_CASES: Cases = {
    "a network serves namespaces": Case(
        request(NICS, nic("web-0", "pool")),
        ((NETWORKS, network(namespaces=["tenant-a", "tenant-b"])),),
        (
            "Nic default/web-0: spec.network: network net1 gives no addresses to namespace default; use another "
            "network, or ask an administrator to add default to spec.namespaces of Network net1"
        ),
    ),
    "a namespace has a quota": Case(
        request(NICS, nic("web-0", "pool", "pool")),
        ((NETWORKS, network(quota={"*": 3})), *MINE),
        (
            "Nic default/web-0: spec.ips: the quota of namespace default in network net1 is exceeded: requested 2, "
            "used 2, limit 3; release addresses, or ask an administrator to raise spec.quota of Network net1"
        ),
    ),
    "a network names namespaces whose force counts": Case(
        request(NICS, nic("web-0", "192.0.2.1", force=True)),
        ((NETWORKS, network(forceNamespaces=["ops"])),),
        (
            "Nic default/web-0: spec.ips[0]: IP 192.0.2.1 of network net1 is externally reserved; choose another one, "
            "or ask an administrator to add default to spec.forceNamespaces of Network net1"
        ),
    ),
}


POOLED = with_status(nic("web-0", "pool", "pool"), network="net1", ips=["192.0.2.10", "192.0.2.11"])
"""A NIC that has two addresses, which it got automatically."""


@each(SHARE_CASES)
def test_namespaces_that_get_no_addresses(case: Case) -> None:
    """A user learns at once that the allocator would give a namespace nothing."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        (nic("web-0", "pool"), None, False),
        (nic("web-0"), None, False),
        (nic("web-0", "pool"), nic("web-0", "pool", network="net2"), False),
        (nic("web-0", "pool", "pool"), holding("web-0", "192.0.2.10"), False),
        (nic("web-0", "192.0.2.11"), holding("web-0", "192.0.2.10"), False),
        (nic("web-0", "pool", release=["192.0.2.10"]), holding("web-0", "pool"), False),
        (nic("web-0", "192.0.2.10"), holding("web-0", "192.0.2.10", "192.0.2.11"), True),
        (nic("web-0"), holding("web-0", "192.0.2.10"), True),
        (nic("web-0", "192.0.2.10", release=["192.0.2.11"]), POOLED, True),
        (nic("web-0", "192.0.2.10", "192.0.2.11", mac="aa:00:00:00:00:01"), POOLED, True),
        (nic("web-0", "192.0.2.10", "pool"), POOLED, True),
        (nic("web-0", "192.0.2.10", "pool", release=["192.0.2.11"]), POOLED, False),
        (nic("web-0", "192.0.2.10", "192.0.2.12"), POOLED, False),
        (nic("web-0", "pool", "pool", "pool"), POOLED, False),
        (nic("web-0", "pool", network="net2"), holding("web-0", "pool"), True),
        (nic("web-0", "pool", mac="aa:00:00:00:00:01"), holding("web-0", "pool"), True),
    ],
    ids=[
        "make",
        "make without",
        "come",
        "add",
        "change",
        "exchange",
        "give back",
        "give all back",
        "give back by a command",
        "MAC by a command",
        "keep by another request",
        "exchange by a command",
        "change by a command",
        "add by a command",
        "leave",
        "MAC",
    ],
)
def test_what_a_namespace_that_is_not_served_may(new: Raw, old: Raw | None, allowed: bool) -> None:
    """It gets nothing new, and may give back what it has."""
    present = (
        (NETWORKS, network(namespaces=["other"])),
        (NETWORKS, network("net2", subnet(cidr="198.51.100.0/24", **NOTHING))),
    )
    assert verdict_of(request(NICS, new, old), *present).allowed == allowed


@pytest.mark.parametrize("admitted", [["default"], ["ops", "*"], None])
def test_force_where_a_network_admits_it(admitted: list[str] | None) -> None:
    """NICs of the namespaces that a network names take reserved addresses by force; of all if it names none."""
    present = (NETWORKS, network(**({"forceNamespaces": admitted} if admitted else {})))
    assert verdict_of(request(NICS, nic("web-0", "192.0.2.1", force=True)), present).allowed


def test_force_that_is_not_needed_is_no_fault() -> None:
    """A NIC that states force and asks for no reserved address is accepted in every namespace."""
    present = ((NETWORKS, network(forceNamespaces=["ops"])),)
    assert verdict_of(request(NICS, nic("web-0", "pool", "192.0.2.50", force=True)), *present).allowed
    had = holding("web-0", "192.0.2.1")
    assert verdict_of(
        request(NICS, nic("web-0", "192.0.2.1", mac="aa:00:00:00:00:01", force=True), had), *present
    ).allowed


def test_a_quota_is_read_live_before_a_refusal() -> None:
    """What the watch has not brought yet, a larger quota or a NIC that is gone, is not held against a user."""
    asked = request(NICS, nic("web-0", "pool"))
    old, new = network(quota={"default": 2}), network(quota={"default": 3})
    assert not verdict_of(asked, (NETWORKS, old), *MINE).allowed
    assert verdict_of(asked, (NETWORKS, new), *MINE, seen=((NETWORKS, old), *MINE)).allowed
    assert verdict_of(asked, (NETWORKS, old), MINE[0], seen=((NETWORKS, old), *MINE)).allowed


def test_the_manager_gets_the_allocators_answer() -> None:
    """The NICs that the manager makes are there although they get nothing, so that it can say why."""
    for more in ({"namespaces": ["other"]}, {"quota": {"*": 0}}):
        net = (NETWORKS, network(**more))
        assert verdict_of(request(NICS, nic("web-0", "pool"), user=MANAGER), net).allowed
        assert not verdict_of(request(NICS, nic("web-0", "pool"), user=AGENT), net).allowed


OWNER_CASES: Cases = {
    "the owner's kind stays": Case(
        request(NICS, nic(owner={"kind": "Pod", "name": "web"}), nic()),
        (),
        (
            "Nic default/web-0: spec.owner is immutable: the NIC belongs to Instance web; delete the NIC, "
            "and create one for the other owner"
        ),
    ),
    "a pod's name stays": Case(
        request(NICS, nic(owner={"kind": "Pod", "name": "db"}), nic(owner={"kind": "Pod", "name": "web"})),
        (),
        (
            "Nic default/web-0: spec.owner is immutable: the NIC belongs to Pod web; delete the NIC, and "
            "create one for the other owner"
        ),
    ),
    "the owner's uid stays": Case(
        request(
            NICS,
            nic(owner={"kind": "Pod", "name": "web", "uid": "2"}),
            nic(owner={"kind": "Pod", "name": "web", "uid": "1"}),
        ),
        (),
        (
            "Nic default/web-0: spec.owner is immutable: the NIC belongs to Pod web; delete the NIC, and "
            "create one for the other owner"
        ),
    ),
}


@each(SHAPE_CASES)
def test_nics_that_can_not_be(case: Case) -> None:
    """A NIC that could not be used is refused with the field and the remedy."""
    assert answer(case) == case.message


@each(ADDRESS_CASES)
def test_addresses_that_can_not_be_had(case: Case) -> None:
    """Who asks for an address that the NIC would not get learns so at once."""
    assert answer(case) == case.message


@each(OWNER_CASES)
def test_an_owner_is_for_life(case: Case) -> None:
    """A NIC never passes from one owner to another."""
    assert answer(case) == case.message


def test_an_owner_is_for_life_to_the_end() -> None:
    """A NIC that waits for its owner's end can't be given to one that has ended."""
    before = deleted(nic(owner={"kind": "Pod", "name": "web", "uid": "1"}))
    after = deleted(nic(owner={"kind": "Instance", "name": "web"}))
    assert not verdict_of(request(NICS, after, before)).allowed


def test_an_owners_uid_may_become_known() -> None:
    """A NIC whose owner was named without its uid gets that later."""
    pod = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    owner = {"kind": "Pod", "name": "web"}
    asked = request(NICS, nic(owner={**owner, "uid": uid_of(PODS, "web")}), nic(owner=owner))
    assert verdict_of(asked, (PODS, pod)).allowed


@pytest.mark.parametrize(
    "body",
    [
        nic("web-0", "pool", "192.0.2.50", "front", "pool4"),
        nic("web-0", "192.0.2.200", force=True),
        nic("web-0", "192.0.2.150"),
        nic(network=""),
        nic(
            owner={"kind": "Instance", "name": "Web_1.example.org"}, mac="AA:00:00:12:34:56", vlan=".10:20:30"
        ),
    ],
    ids=["usual", "reserved, by force", "in no pool", "no network", "as in Ganeti"],
)
def test_nics_as_they_should_be(body: Raw) -> None:
    """What the allocator can give is allowed without a word."""
    verdict = verdict_of(request(NICS, body), *PRESENT)
    assert (verdict.message, verdict.warnings) == ("", ())


def test_what_may_still_come_is_warned_of() -> None:
    """A network or a pool that does not exist may be created later; a warning names it, as it may be misspelt."""
    verdict = verdict_of(request(NICS, nic("web-0", "pool", network="net9")), *PRESENT)
    assert verdict.allowed
    assert verdict.warnings == ("Network net9 does not exist yet; the NIC gets addresses when it does",)
    verdict = verdict_of(request(NICS, nic("web-0", "back")), *PRESENT)
    assert verdict.allowed
    assert verdict.warnings == ("Network net1 has no pool back yet; the NIC gets addresses when it has",)


MAC = "aa:00:00:12:34:56"
TWIN = (NICS, nic("twin-0", mac=MAC, owner={"kind": "Instance", "name": "db"}))


@pytest.mark.parametrize(
    ("new", "old", "holder"),
    [
        pytest.param(nic(mac=MAC), None, "NIC default/twin-0", id="created"),
        pytest.param(nic(mac=MAC.upper()), None, "NIC default/twin-0", id="in capitals"),
        pytest.param(nic(mac=MAC), nic(), "NIC default/twin-0", id="changed"),
        pytest.param(
            nic(mac=MAC), nic(mac=MAC, network="net2"), "NIC default/twin-0", id="joins the network"
        ),
        pytest.param(nic(mac=MAC, name="front"), nic(mac=MAC), "", id="had it before"),
        pytest.param(nic(mac=MAC, network="net2"), None, "", id="on another network"),
        pytest.param(nic(mac="aa:00:00:12:34:57"), None, "", id="another one"),
        pytest.param(nic(), None, "", id="none"),
        pytest.param(
            nic(mac=MAC, meta={"namespace": "other"}), None, "a NIC of another namespace", id="tenants"
        ),
    ],
)
def test_two_nics_with_one_mac_address(new: Raw, old: Raw | None, holder: str) -> None:
    """A warning names another NIC on the network that has the MAC address that a NIC gets."""
    there = () if old is None else ((NICS, old),)
    verdict = verdict_of(request(NICS, new, old=old), *PRESENT, (NETWORKS, network("net2")), TWIN, *there)
    assert verdict.allowed, verdict.message
    found = [text for text in verdict.warnings if text.startswith("spec.mac: ")]
    assert [text.removeprefix("spec.mac: ").partition(" on Network")[0] for text in found] == (
        [holder] if holder else []
    )


def test_what_a_nic_has_is_not_asked_for_again() -> None:
    """An address that the NIC owns, or asked for before, is not judged again when something else changes."""
    outside = with_status(nic("web-0", "10.0.0.1"), network="net1", ips=["10.0.0.1"])
    for new in (nic("web-0", "10.0.0.1", "pool"), nic("web-0", "10.0.0.1", mac="aa:00:00:00:00:01")):
        assert verdict_of(request(NICS, {**new, "status": outside["status"]}, outside), *PRESENT).allowed
    own = with_status(nic("db-0", "192.0.2.10", "192.0.2.20"), network="net1", ips=["192.0.2.10"])
    assert verdict_of(request(NICS, own, holding("db-0", "pool")), *PRESENT).allowed


def test_a_network_that_can_not_be_read_hinders_no_nic() -> None:
    """What is wrong with a network is not held against its NICs; the allocator says it."""
    broken = network("net1", subnet(cidr="nothing"))
    assert verdict_of(request(NICS, nic("web-0", "192.0.2.1")), (NETWORKS, broken)).allowed


@pytest.mark.parametrize("body", [nic(mac="x"), nic("web-0", "pool", network="")])
def test_what_is_wrong_already_may_be_marked_and_may_go(body: Raw) -> None:
    """An object that was written while no webhook answered can be labelled, deleted, and let go."""
    labelled = {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}}
    assert verdict_of(request(NICS, labelled, body)).allowed
    assert verdict_of(request(NICS, None, body)).allowed
    leaving = deleted(body)
    assert verdict_of(
        request(NICS, {**leaving, "metadata": {**leaving["metadata"], "finalizers": []}}, leaving)
    ).allowed
