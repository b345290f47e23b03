"""Networks that no cluster could use, whatever is there."""

from lanloom.api.ipam import NETWORKS
from tests.features.ipam.admission.cases import Case, Cases, answer, each
from tests.features.ipam.admission.requests import CONNECTION, Raw, network, subnet
from tests.harness.admission import request


def shape(message: str, body: Raw) -> Case:
    """A network that is refused whatever the cluster is like."""
    return Case(request(NETWORKS, body), (), message)


def pools(*ranges: str) -> Raw:
    """The usual subnet with these pools."""
    return subnet(pools=[{"range": text} for text in ranges])


SHAPE_CASES: Cases = {
    "a network can be read": shape(
        "can't read Network net1 because Expected `array`, got `int` - at `$.spec.subnets`",
        {"metadata": {"name": "net1"}, "spec": {"subnets": 5}},
    ),
    "a network has a reasonable size": shape(
        "Network net1: spec.subnets has 1025 entries; at most 1024 are allowed",
        network("net1", *({"cidr": f"10.{index // 256}.{index % 256}.0/24"} for index in range(1025))),
    ),
    "a name is no word of the options": shape(
        (
            'Network pool: metadata.name: "pool" can\'t be the name of a network: the word is '
            "reserved for options; choose another one"
        ),
        network("pool"),
    ),
    "a name looks like no address": shape(
        (
            'Network net1: spec.name: "192.0.2.1" can\'t be the name of a network: it would be taken '
            "for addresses; choose another one"
        ),
        network("net1", name="192.0.2.1"),
    ),
    "a UUID is one": shape(
        'Network net1: spec.uuid: "net1" is not a UUID; omit it to use the object\'s uid',
        network(uuid="net1"),
    ),
    "a MAC prefix has three octets": shape(
        ('Network net1: spec.macPrefix: "aa:00" is not a MAC prefix; write three octets such as aa:00:00'),
        network(macPrefix="aa:00"),
    ),
    "a tag is a word": shape(
        (
            'Network net1: spec.tags: "two words" is not a tag; use up to 128 letters, digits and the '
            "characters _ . + * / : @ -"
        ),
        network(tags=["two words"]),
    ),
    "a network names namespaces": shape(
        (
            'Network net1: spec.namespaces[0]: "Tenant A" is not the name of a namespace; use lower-case letters, '
            "digits and dashes, or * for every namespace"
        ),
        network(namespaces=["Tenant A"]),
    ),
    "a quota is no less than nothing": shape(
        "can't read Network net1 because Expected `int` >= 0 - at `$.spec.quota[...]`",
        network(quota={"*": -1}),
    ),
    "addresses are kept for names that come again": shape(
        'Network net1: spec.stickyFor: "Deployment" has no names that come again; choose from StatefulSet, Pod, '
        "VirtualMachine",
        network(stickyFor={"Deployment": "1h"}),
    ),
    "addresses are kept for a period": shape(
        'Network net1: spec.stickyFor.Pod: "1 hour" is not a period; write a number with s, m, h or d, such as 12h, '
        "up to 366d",
        network(stickyFor={"Pod": "1 hour"}),
    ),
    "a connection has a mode": shape(
        (
            'Network net1: spec.connections[0]: "magic" is not a mode of a NIC; choose one of bridged, '
            "routed, openvswitch"
        ),
        network(connections=[CONNECTION | {"mode": "magic"}]),
    ),
    "a MAC prefix is no multicast's": shape(
        'Network net1: spec.macPrefix: "01:00:5e" is the prefix of multicast addresses; make the first octet even',
        network(macPrefix="01:00:5e"),
    ),
    "a connection has a group": shape(
        (
            'Network net1: spec.connections[0]: "" is not a node group; '
            "use letters, digits, dots, dashes and underscores"
        ),
        network(connections=[CONNECTION | {"group": ""}]),
    ),
    "a connection has a link": shape(
        'Network net1: spec.connections[0]: "br 0" is not a link; name a bridge, a switch or a routing table',
        network(connections=[CONNECTION | {"link": "br 0"}]),
    ),
    "a connection has a VLAN id or none": shape(
        'Network net1: spec.connections[0]: "4095" is not a VLAN id; write one from 1 to 4094, or several as .10:20:30',
        network(connections=[CONNECTION | {"vlan": "4095"}]),
    ),
    "a group is connected once": shape(
        "Network net1: spec.connections[1]: group rack1 is connected twice; keep one of the two",
        network(connections=[CONNECTION, CONNECTION]),
    ),
    "a CIDR is one": shape(
        (
            'Network net1: spec.subnets[0].cidr: "192.0.2.0" is not a CIDR; write one such as '
            "192.0.2.0/24 or 2001:db8::/64"
        ),
        network("net1", subnet(cidr="192.0.2.0")),
    ),
    "subnets do not overlap": shape(
        (
            "Network net1: spec.subnets[1].cidr: 192.0.2.128/25 overlaps subnet 192.0.2.0/24; choose a "
            "CIDR apart from it"
        ),
        network("net1", subnet(), {"cidr": "192.0.2.128/25"}),
    ),
    "names of subnets are unique": shape(
        (
            "Network net1: spec.subnets[1].name: a is the name of subnet 192.0.2.0/24 (a) already; "
            "choose another one"
        ),
        network("net1", {"cidr": "192.0.2.0/24", "name": "a"}, {"cidr": "10.0.0.0/24", "name": "a"}),
    ),
    "UUIDs of subnets are unique": shape(
        (
            "Network net1: spec.subnets[1].uuid: 6f1f2a1e-0000-4000-8000-000000000001 is the UUID of "
            "another subnet; omit it to have one generated"
        ),
        network("net1", subnet(), {**subnet(), "cidr": "10.0.0.0/24"}),
    ),
    "one subnet of a version has dhcp": shape(
        (
            "Network net1: spec.subnets[1].dhcp: subnet 192.0.2.0/24 has dhcp=true already, which is allowed "
            "for only one IPv4 subnet of a network; set it to false there first"
        ),
        network("net1", {"cidr": "192.0.2.0/24", "dhcp": True}, {"cidr": "10.0.0.0/24", "dhcp": True}),
    ),
    "a lease has a length": shape(
        (
            "Network net1: spec.subnets[0].leaseSeconds: 30 is not a number from 60 to 31622400; omit it for a day"
        ),
        network("net1", subnet(leaseSeconds=30)),
    ),
    "a subnet has hosts": shape(
        "Network net1: spec.subnets[1].cidr: ff05::/64 has multicast addresses, which no NIC can have; choose another "
        "CIDR",
        network("net1", subnet(), {"cidr": "ff05::/64"}),
    ),
    "a gateway is an address": shape(
        (
            'Network net1: spec.subnets[0].gateway: "gw" is not an IP address; write one such as '
            "192.0.2.10 or 2001:db8::10"
        ),
        network("net1", subnet(gateway="gw")),
    ),
    "a gateway lies inside": shape(
        (
            "Network net1: spec.subnets[0].gateway: 10.0.0.1 lies outside of 192.0.2.0/24; choose one "
            "inside of it, or none"
        ),
        network("net1", subnet(gateway="10.0.0.1")),
    ),
    "a gateway is no edge": shape(
        (
            "Network net1: spec.subnets[0].gateway: 192.0.2.255 is the broadcast address of "
            "192.0.2.0/24; choose another one, or none"
        ),
        network("net1", subnet(gateway="192.0.2.255")),
    ),
    "a pool is a range": shape(
        (
            'Network net1: spec.subnets[0].pools[0].range: "" is not an IP address; write one such as '
            "192.0.2.10 or 2001:db8::10"
        ),
        network("net1", pools("192.0.2.10-")),
    ),
    "a pool lies inside": shape(
        (
            "Network net1: spec.subnets[0].pools: 192.0.3.10-192.0.3.20 does not lie inside of "
            "192.0.2.0/24; choose a range that does"
        ),
        network("net1", pools("192.0.3.10-192.0.3.20")),
    ),
    "pools do not overlap": shape(
        (
            "Network net1: spec.subnets[0].pools: 192.0.2.20 overlaps the pool 192.0.2.10-192.0.2.20; "
            "choose addresses that are in no pool"
        ),
        network("net1", pools("192.0.2.10-192.0.2.20", "192.0.2.20")),
    ),
    "the name of a pool is a name": shape(
        (
            'Network net1: spec.subnets[0].pools: "none" can\'t be the name of a pool: the word is '
            "reserved for options; choose another one"
        ),
        network("net1", subnet(pools=[{"range": "192.0.2.10", "name": "none"}])),
    ),
    "what is reserved lies inside": shape(
        (
            "Network net1: spec.subnets[0].external: 10.0.0.1 does not lie inside of 192.0.2.0/24; "
            "choose a range that does"
        ),
        network("net1", subnet(external=["10.0.0.1"])),
    ),
}


@each(SHAPE_CASES)
def test_networks_that_can_not_be(case: Case) -> None:
    """A network that no cluster could use is refused with the field and the remedy."""
    assert answer(case) == case.message
