"""Names of networks that are taken, and changes and deletions that the users of addresses forbid."""

import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.multus import NADS
from tests.features.ipam.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.ipam.admission.requests import (
    CONNECTION,
    Present,
    Raw,
    deleted,
    granting,
    holding,
    network,
    nic,
    subnet,
    verdict_of,
    with_status,
)
from tests.harness.admission import request

OTHER = "6f1f2a1e-0000-4000-8000-000000000002"


NAD: Raw = {
    "metadata": {"name": "blue", "namespace": "default"},
    "spec": {
        "config": '{"ipam": {"type": "lanloom-ipam", "network": "net1", "routes": [{"dst": "10.20.1.1/16"}]}}'
    },
}

RANGE_CASES: Cases = {
    "a route has no host bits": Case(
        request(NADS, NAD),
        (),
        (
            "NetworkAttachmentDefinition default/blue: spec.config.ipam.routes[0].dst: 10.20.1.1/16 has host bits; did "
            "you mean 10.20.0.0/16 (65536 addresses) or 10.20.1.1/32?"
        ),
    ),
    "a reserved range has no host bits": Case(
        request(NETWORKS, network("net1", subnet(external=["192.0.2.129/25"]))),
        (),
        (
            "Network net1: spec.subnets[0].external[0]: 192.0.2.129/25 has host bits; did you mean 192.0.2.128/25 "
            "(128 addresses) or 192.0.2.129/32?"
        ),
    ),
    "a pool has no host bits": Case(
        request(NETWORKS, network("net1", subnet(pools=[{"range": "192.0.2.17/28"}]))),
        (),
        (
            "Network net1: spec.subnets[0].pools[0].range: 192.0.2.17/28 has host bits; did you mean 192.0.2.16/28 "
            "(16 addresses) or 192.0.2.17/32?"
        ),
    ),
}

IDENTITY_CASES: Cases = {
    "a name is that of one network": Case(
        request(NETWORKS, network("net2", name="prod")),
        ((NETWORKS, network(name="prod")),),
        "Network net2: spec.name: prod is the name of Network net1; choose another one",
    ),
    "a name is that of one network, and may be its object's": Case(
        request(NETWORKS, network("net2", name="net1")),
        ((NETWORKS, network()),),
        "Network net2: spec.name: net1 is the name of Network net1; choose another one",
    ),
    "an object's name is taken back only if it is free": Case(
        request(NETWORKS, network(), network(name="prod")),
        ((NETWORKS, network(name="prod")), (NETWORKS, network("net2", name="net1"))),
        "Network net1: metadata.name: net1 is the name of Network net2; choose another one",
    ),
    "an object's name is no other network's": Case(
        request(NETWORKS, network("prod")),
        ((NETWORKS, network(name="prod")),),
        "Network prod: metadata.name: prod is the name of Network net1; choose another one",
    ),
    "an object's name is no other network's, whatever its own is": Case(
        request(NETWORKS, network("prod", name="mine")),
        ((NETWORKS, network(name="prod")),),
        "Network prod: metadata.name: prod is the name of Network net1; choose another one",
    ),
    "a UUID is that of one network": Case(
        request(NETWORKS, network("net2", uuid=OTHER)),
        ((NETWORKS, network(uuid=OTHER.upper())),),
        (
            "Network net2: spec.uuid: 6f1f2a1e-0000-4000-8000-000000000002 is the UUID of Network net1; "
            "omit it to use the object's uid"
        ),
    ),
}


def change(message: str, new: Raw, *present: Present, old: Raw | None = None) -> Case:
    """An edit of the usual network."""
    return Case(request(NETWORKS, new, old or network()), present, message)


GRANTED = granting("web-0", "192.0.2.150")
CHANGE_CASES: Cases = {
    "a subnet whose addresses NICs own stays": change(
        (
            "network net1: subnet 192.0.2.0/24 can't be removed while NICs own addresses that it would "
            "lose: 192.0.2.150 (NIC default/web-0); remove these addresses from the NICs first"
        ),
        network("net1", {"cidr": "10.0.0.0/24"}),
        (NICS, holding("web-0", "192.0.2.150")),
    ),
    "what is cut off of a subnet has no owner": change(
        (
            "network net1: subnet 192.0.2.0/24 can't become 192.0.2.0/25 while NICs own addresses that "
            "it would lose: 192.0.2.150 (NIC default/web-0); remove these addresses from the NICs first"
        ),
        network("net1", subnet(cidr="192.0.2.0/25", external=None)),
        (NICS, holding("web-0", "192.0.2.150")),
    ),
    "what is granted and not yet reported is owned": change(
        (
            "network net1: subnet 192.0.2.0/24 can't become 192.0.2.0/25 while NICs own addresses that "
            "it would lose: 192.0.2.150 (NIC default/web-0); remove these addresses from the NICs first"
        ),
        network("net1", subnet(cidr="192.0.2.0/25", external=None)),
        (NICS, nic("web-0", "pool")),
        old=GRANTED,
    ),
    "the gateway has no owner": change(
        (
            "network net1: subnet 192.0.2.0/24: gateway 192.0.2.150 is used by NIC default/web-0; "
            "choose another one, or remove the address from the NIC first"
        ),
        network("net1", subnet(gateway="192.0.2.150")),
        (NICS, holding("web-0", "192.0.2.150")),
    ),
    "a subnet keeps its IP version": change(
        (
            "network net1: subnet 192.0.2.0/24 can't change to the other IP version (2001:db8::/64); "
            "add a subnet for that"
        ),
        network("net1", {"uuid": subnet()["uuid"], "cidr": "2001:db8::/64"}),
    ),
}


@each(RANGE_CASES)
def test_ranges_with_host_bits(case: Case) -> None:
    """Of a range with host bits it is unknown whether one address was meant, or all."""
    assert answer(case) == case.message


@each(IDENTITY_CASES)
def test_names_that_are_taken(case: Case) -> None:
    """What finds a network finds one only."""
    assert answer(case) == case.message


@each(CHANGE_CASES)
def test_changes_that_users_forbid(case: Case) -> None:
    """Nothing is taken away from a NIC by an edit of its network."""
    assert answer(case) == case.message


REMAINS = (
    "Network net1 remains until no NIC owns an address of it, and no NIC gets one; the NICs {} use it: delete them, "
    "or give them another network"
)
ASKING = (NICS, nic("web-0", "pool"))
OWNING = (NICS, with_status(nic("web-1", network="other"), network="net1", ips=["192.0.2.9"]))
STRANGER = (NICS, nic("web-2", network="other"))


@pytest.mark.parametrize(
    ("body", "present", "named"),
    [
        (network(), (), ""),
        (network(), (STRANGER,), ""),
        (network(connections=[CONNECTION]), (), ""),
        (network(), (ASKING, STRANGER), "default/web-0"),
        (network(), (OWNING, ASKING), "default/web-0, default/web-1"),
        (GRANTED, (ASKING,), "default/web-0"),
        (deleted(network()), (ASKING,), "default/web-0"),
    ],
    ids=["unused", "others' NICs", "connected", "asked for", "owned", "granted", "again"],
)
def test_a_network_in_use_is_accepted_for_deletion(
    body: Raw, present: tuple[Present, ...], named: str
) -> None:
    """The deletion of a network warns what its finalizer waits for; so the order of deletions does not matter."""
    verdict = verdict_of(request(NETWORKS, None, body), *present)
    assert verdict.allowed
    assert verdict.warnings == ((REMAINS.format(named),) if named else ())


@pytest.mark.parametrize("case", [*CHANGE_CASES.values()], ids=list(CHANGE_CASES))
def test_what_nobody_uses_may_change(case: Case) -> None:
    """The same edits are allowed where no NIC has to do with them, but for the one that changes the IP version."""
    verdict = verdict_of(request(NETWORKS, case.asked.object, network()))
    assert verdict.allowed == ("IP version" not in case.message)


@pytest.mark.parametrize(
    "new",
    [
        network(),
        network("net1", subnet(pools=[])),
        network("net1", subnet(), {"cidr": "10.0.0.0/8", "pools": [{"range": "10.0.0.0/8"}]}),
        network("net1", subnet(external=[])),
        network(name="prod", tags=["a"], connections=[CONNECTION]),
        network("net1", subnet(cidr="192.0.2.0/23")),
        network("net1", {"cidr": "192.0.2.128/25"}, {"cidr": "192.0.2.0/28"}),
    ],
    ids=["nothing", "no pools", "one more subnet", "nothing reserved", "other things", "grown", "split"],
)
def test_changes_that_are_nobodys_matter(new: Raw) -> None:
    """Who owns addresses hinders no change that leaves them in their subnet."""
    assert verdict_of(
        request(NETWORKS, new, network()), (NICS, holding("web-0", "192.0.2.150", "192.0.2.10"))
    ).allowed


def test_a_pool_that_is_used_may_go_with_a_warning() -> None:
    """The removal of a pool warns which NICs keep addresses of it."""
    asked = request(NETWORKS, network("net1", subnet(pools=[])), network())
    verdict = verdict_of(asked, (NICS, holding("web-0", "192.0.2.10")))
    assert verdict.warnings == (
        "NICs keep addresses that are no longer in pool 192.0.2.10-192.0.2.100 (front): "
        "192.0.2.10 (NIC default/web-0)",
    )


@pytest.mark.parametrize("body", [network("pool"), network("net1", subnet(cidr="nothing"))])
def test_what_is_wrong_already_may_be_marked_and_may_go(body: Raw) -> None:
    """An object that was written while no webhook answered can be labelled, mended, and deleted."""
    labelled = {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}}
    assert verdict_of(request(NETWORKS, labelled, body)).allowed
    assert verdict_of(request(NETWORKS, {**network(), "metadata": {"name": "net1"}}, body)).allowed
    assert verdict_of(request(NETWORKS, None, body)).allowed


def test_a_network_that_a_nic_has_left_may_go() -> None:
    """A NIC that asks for another network and owns nothing in this one does not keep it, whatever it was granted."""
    assert verdict_of(request(NETWORKS, None, GRANTED), (NICS, nic("web-0", network="other"))).allowed


def test_a_network_that_is_leaving_is_not_held() -> None:
    """The finalizers of a network whose deletion was asked for can go whatever stands in it."""
    body = deleted(network("pool", connections=[CONNECTION]))
    held = {**body, "metadata": {**body["metadata"], "finalizers": ["example.com/theirs"]}}
    assert verdict_of(request(NETWORKS, body, held)).allowed
    assert verdict_of(request(NETWORKS, None, body)).allowed
    assert not verdict_of(request(NETWORKS, deleted(network("pool")), body)).allowed


def test_the_name_of_a_renamed_network_is_free() -> None:
    """A network may be called as the object of another one that was renamed."""
    first, second = network(name="prod"), network("net2", name="net1")
    assert verdict_of(request(NETWORKS, second), (NETWORKS, first)).allowed
    again = request(NETWORKS, network(name="shop"), first)
    assert verdict_of(again, (NETWORKS, first), (NETWORKS, second)).allowed


def test_a_network_keeps_its_own_name() -> None:
    """A network is not hindered by its own name and UUID, and may take its object's name back."""
    before = network(name="prod", uuid=OTHER)
    present = (NETWORKS, before)
    assert verdict_of(request(NETWORKS, network(uuid=OTHER), before), present).allowed
    assert verdict_of(request(NETWORKS, network(name="prod2", uuid=OTHER), before), present).allowed


def test_a_subnet_without_hosts_from_before_stays() -> None:
    """A network that has a subnet of multicast addresses keeps it, and everything else of it can change."""
    multicast = subnet(cidr="224.0.0.0/24", gateway=None, pools=None, external=None)
    old = network("net1", multicast)
    new = network("net1", multicast, {"cidr": "10.9.0.0/24"})
    assert verdict_of(request(NETWORKS, new, old), (NETWORKS, old)).allowed
    other = network("net1", {**multicast, "cidr": "224.0.1.0/24"})
    assert not verdict_of(request(NETWORKS, other, old), (NETWORKS, old)).allowed
