"""The address of a lease, from what a DHCP server said and what the device has."""

import pytest

from lanloom.node.networkmanager.objects import NM, Objects, Profile, connection

UUID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("mask", "addresses", "leased"),
    [
        ("255.255.255.0", (), "10.0.0.5/24"),
        ("255.255.255.0", (("10.0.0.50", 24), ("10.0.0.5", 24)), "10.0.0.5/24"),
        ("255.0.255.0", (("10.0.0.5", 16),), "10.0.0.5/16"),
        ("255.0.255.0", (), ""),
        ("bogus", (), ""),
        ("", (("10.0.0.50", 24),), ""),
        ("", (("10.0.0.5", 8),), "10.0.0.5/8"),
    ],
)
def test_the_address_of_a_lease(mask: str, addresses: tuple[tuple[str, int], ...], leased: str) -> None:
    """A server can send any mask: the address counts as it is on the device, and a mask that is none stops nothing."""
    options = {"ip_address": "10.0.0.5", **({"subnet_mask": mask} if mask else {})}
    data = [{"address": address, "prefix": prefix} for address, prefix in addresses]
    found = Objects(
        {
            "/a": {f"{NM}.Connection.Active": {"Uuid": UUID, "State": 2, "Devices": ["/d"]}},
            "/d": {f"{NM}.Device": {"State": 100, "Interface": "x", "Ip4Config": "/i", "Dhcp4Config": "/l"}},
            "/i": {f"{NM}.IP4Config": {"AddressData": data}},
            "/l": {f"{NM}.DHCP4Config": {"Options": options}},
        }
    )
    profile = Profile("/p", UUID, {"connection": {"id": "x"}}, None)
    lease = connection(profile, found, "").lease
    assert lease is not None and lease.address == leased
