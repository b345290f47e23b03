"""Every violation is reported, in either form."""

import json
from collections.abc import Callable

import pytest

from lanloom.features.ipam.ganeti.formats.conversion import upgrade_config
from lanloom.features.ipam.ganeti.formats.verify import verify_config, verify_runtime
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    instance,
    network,
    nic,
    python_text,
    uuid,
)

LINK = {"link": "br100", "mode": "bridged", "vlan": ""}
NET = uuid("net1")


def cluster() -> Json:
    """A cluster of the old form in which all is well."""
    one = network("net1", "192.0.2.0/28", used=[2, 3])
    two = network("net2", "198.51.100.0/28", network6="2001:db8::/64")
    machines = [instance("inst1", [nic(1, "192.0.2.2", NET)]), instance("inst2", [nic(2, "192.0.2.3", NET)])]
    return config([one, two], machines, {"net1": LINK})


def old(key: str, value: Json) -> Callable[[Json], object]:
    """Set a field of the first network."""
    return lambda data: data["networks"][NET].update({key: value})


def of_nic(key: str, value: Json) -> Callable[[Json], object]:
    """Set a field of the first NIC."""
    return lambda data: data["instances"][uuid("inst1")]["nics"][0].update({key: value})


def subnet(**values: Json) -> Callable[[Json], object]:
    """Set fields of the first network's first subnet."""
    return lambda data: data["networks"][NET]["subnets"][0].update(values)


def more_subnet(**values: Json) -> Callable[[Json], object]:
    """Give the first network another subnet."""
    return lambda data: data["networks"][NET]["subnets"].append(
        {"cidr": "203.0.113.0/24", "dhcp": True} | values
    )


def test_well() -> None:
    """Nothing is reported where nothing is wrong."""
    text = python_text(cluster())
    assert verify_config(text) == verify_config(upgrade_config(text).text) == ()


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (
            of_nic("ip", "192.0.2.3"),
            "192.0.2.3 of NIC 0 of instance inst1 is also owned by NIC 0 of instance inst2",
        ),
        (of_nic("ip", "192.0.2.9"), "network net1: 192.0.2.9 of NIC 0 of instance inst1 is not reserved"),
        (of_nic("ip", "192.0.2.9"), "network net1: 192.0.2.2 is reserved, but no NIC has it"),
        (
            of_nic("ip", "192.0.3.9"),
            "network net1: 192.0.3.9 of NIC 0 of instance inst1 is in none of its subnets",
        ),
        (of_nic("ip", "192.0.2.1"), "network net1: 192.0.2.1 of NIC 0 of instance inst1 is the gateway"),
        (of_nic("mac", "AA:00:00:00:00:02"), '2 NICs have the MAC address "aa:00:00:00:00:02"'),
        (of_nic("uuid", uuid("nic2")), f'2 NICs have the UUID "{uuid("nic2")}"'),
        (lambda data: data["instances"][uuid("inst1")].update(name="inst2"), '2 instances are named "inst2"'),
        (of_nic("network", "gone"), 'NIC 0 of instance inst1: network "gone" does not exist'),
        (
            old("gateway", "192.0.3.1"),
            "network net1: subnet 192.0.2.0/28: its gateway 192.0.3.1 is outside of it",
        ),
        (old("gateway", "192.0.2.15"), "its gateway 192.0.2.15 is its network or broadcast address"),
        (
            old("ext_reservations", "0" * 16),
            "network net1: subnet 192.0.2.0/28: 192.0.2.1 is not externally reserved",
        ),
        (
            old("reservations", "0" * 15),
            "network net1: the pool 192.0.2.0-192.0.2.15 has 15 bits for 16 addresses",
        ),
        (old("reservations", None), "network net1 has no reservations, although it has ext_reservations"),
        (old("mac_prefix", "zz"), 'network net1: mac_prefix: "zz" is not a MAC prefix'),
        (lambda data: data.update(version=9_990_000), "version is 9990000; known are 2070000 to 3010000"),
        (lambda data: data.update(version=2_060_000), "version is 2060000; known are 2070000 to 3010000"),
        (lambda data: data.update(version="3.1"), "version is no number; known are"),
        (lambda data: data.pop("version"), "version is no number; known are"),
        (old("ext_reservations", "0" * 17), ".ext_reservations has 17 bits for the 16 addresses"),
        (old("name", "net2"), '2 networks are named "net2"'),
        (old("name", None), "networks without a name: 1"),
        (old("uuid", "other"), '.uuid is "other", not the key under which it is stored'),
        (
            lambda data: data["nodegroups"][uuid("group default")]["networks"].update(gone=LINK),
            'node group default is connected to a network that does not exist, "gone"',
        ),
        (
            lambda data: data["nodegroups"][uuid("group default")]["networks"][NET].update(mode="tunnelled"),
            'has the mode "tunnelled"',
        ),
        (
            lambda data: data["nodegroups"][uuid("group default")]["networks"][NET].update(vlan=".5000"),
            'node group default: network "' + NET + '": ".5000" is not a VLAN id',
        ),
    ],
)
def test_old_form(change: Callable[[Json], object], violation: str) -> None:
    """A violation in the old form is reported."""
    data = cluster()
    change(data)
    found = verify_config(python_text(data))
    assert any(violation in line for line in found), found


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (
            more_subnet(cidr="192.0.2.8/29"),
            "network net1: subnets overlap: 192.0.2.0-192.0.2.15 and 192.0.2.8-192.0.2.15",
        ),
        (
            lambda data: [more_subnet()(data), subnet(dhcp=True)(data)],
            "network net1: several IPv4 subnets have dhcp",
        ),
        (
            lambda data: [more_subnet(name="a")(data), subnet(name="a")(data)],
            'of network net1 have the name "a"',
        ),
        (
            lambda data: [more_subnet(uuid="a")(data), subnet(uuid="a")(data)],
            'of network net1 have the UUID "a"',
        ),
        (subnet(pools=[{"range": "192.0.3.0/28"}]), "the pool 192.0.3.0-192.0.3.15 is outside of it"),
        (
            subnet(pools=[{"range": "192.0.2.4"}, {"range": "192.0.2.0/29"}]),
            "pools overlap: 192.0.2.0-192.0.2.7 and 192.0.2.4",
        ),
        (subnet(external=["192.0.3.1"]), "the external range 192.0.3.1 is outside of it"),
        (subnet(external=["192.0.2.0/29", "192.0.2.4"]), "external ranges overlap"),
        (subnet(pools=[{"range": "192.0.2.2-192.0.2.3", "reservations": "1"}]), "has 1 bits for 2 addresses"),
        (
            of_nic("ips", ["192.0.2.2", "192.0.2.2"]),
            "192.0.2.2 of NIC 0 of instance inst1 occurs more than once",
        ),
        (
            lambda data: [of_nic("ips", ["192.0.2.2", "192.0.2.4"])(data), of_nic("network", None)(data)],
            "NIC 0 of instance inst1 has several addresses, but no network",
        ),
        (
            more_subnet(pools=[{"range": "10.0.0.0/8", "reservations": "0"}]),
            "the pool 10.0.0.0-10.255.255.255 is too large for a string of reservations",
        ),
    ],
)
def test_new_form(change: Callable[[Json], object], violation: str) -> None:
    """A violation in the new form is reported."""
    data = json.loads(upgrade_config(python_text(cluster())).text)
    change(data)
    found = verify_config(python_text(data))
    assert any(violation in line for line in found), found


def test_runtime() -> None:
    """A running machine's NIC belongs into the network that it carries along, and each network is well by itself."""
    one = network("net1", "192.0.2.0/28", used=[2])
    good = nic(1, "192.0.2.2", NET, netinfo=one)
    bad = nic(2, "192.0.3.2", "gone", netinfo=one | {"gateway": "192.0.3.1"})
    assert verify_runtime(json.dumps([[], [good], {}, []])) == ()
    assert verify_runtime(json.dumps([[], [good, bad], {}, []])) == (
        "NIC 1: network net1: subnet 192.0.2.0/28: its gateway 192.0.3.1 is outside of it",
        'NIC 1 is in the network "gone", but its netinfo is that of network net1',
        "NIC 1: network net1: 192.0.3.2 is in none of its subnets",
    )
