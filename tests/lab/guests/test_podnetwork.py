"""The network of a launcher pod, by names and steps."""

import json

from lanloom_lab.guests.podnetwork import PodLink, Wiring, batch, parse_links

SHOWN = json.dumps(
    [
        {},
        {
            "ifname": "pod56a025b6623",
            "address": "02:00:00:00:00:09",
            "mtu": 1450,
            "addr_info": [
                {"local": "10.1.2.3", "prefixlen": 24, "scope": "global"},
                {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            ],
        },
    ]
)
MAC = "02:aa:aa:aa:aa:aa"


def test_names() -> None:
    """Bridge, port and tap of a secondary network have its hash, those of the primary one KubeVirt's fixed names."""
    hashed, primary = Wiring("pod56a025b6623"), Wiring("eth0")
    assert (hashed.bridge, hashed.port, hashed.tap) == (
        "k6t-56a025b6623",
        "56a025b6623-nic",
        "tap56a025b6623",
    )
    assert (primary.bridge, primary.port, primary.tap) == ("k6t-eth0", "eth0-nic", "tap0")


def test_links_as_shown() -> None:
    """Of an interface's addresses those of more than the link count."""
    assert parse_links(SHOWN) == {
        "pod56a025b6623": PodLink("pod56a025b6623", "02:00:00:00:00:09", 1450, ("10.1.2.3/24",))
    }


def test_the_dummy_takes_over() -> None:
    """The dummy interface has the old name, MAC address, MTU and addresses; the port has the bridge's MAC address."""
    lines = batch(parse_links(SHOWN)["pod56a025b6623"], 2, MAC).splitlines()
    assert "link add pod56a025b6623 address 02:00:00:00:00:09 mtu 1450 type dummy" in lines
    assert "address add 10.1.2.3/24 dev pod56a025b6623" in lines
    assert f"link set pod56a025b6623 name 56a025b6623-nic address {MAC} addrgenmode none" in lines
    assert "link set 56a025b6623-nic type bridge_slave learning off" in lines
    assert "address add 169.254.75.12/32 dev k6t-56a025b6623" in lines


def test_an_interface_without_addresses() -> None:
    """The bridge of an interface without IPv4 addresses has none either."""
    assert "169.254" not in batch(PodLink("eth0", MAC, 1500, ("2001:db8::1/64",)), 0, MAC)
