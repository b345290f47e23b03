"""The hardware of a guest as QEMU gets it."""

from pathlib import Path

import pytest

from lanloom_lab.guests.assets import GuestAssets
from lanloom_lab.guests.domain import LAST_SLOT, Domain, Nic, command, free_slot

LAN = Nic(name="lan", mac="02:00:00:00:00:01", slot=4, link="pod1", mtu=1450, address="10.0.0.1/24")
ODD = Nic(name="odd,name", mac="02:00:00:00:00:02", slot=5)


def words(domain: Domain, *, incoming: bool = False) -> tuple[str, ...]:
    """QEMU's command line."""
    return command(GuestAssets(Path("/assets")), domain, {"lan": 7}, 9, incoming=incoming)


def test_nics() -> None:
    """A NIC on an interface of the pod has its tap's descriptor, any other is a device alone; names are left out."""
    line = " ".join(words(Domain(name="vm1", memory="/m", nics=(LAN, ODD))))
    assert "-netdev tap,id=nic4-tap,fd=7" in line
    assert (
        "virtio-net-pci,id=nic4,mac=02:00:00:00:00:01,addr=0x4,host_mtu=1450,romfile=,netdev=nic4-tap" in line
    )
    assert "virtio-net-pci,id=nic5,mac=02:00:00:00:00:02,addr=0x5,host_mtu=1500,romfile=" in line
    assert "odd" not in line


def test_a_nic_has_the_mtu_of_its_interface() -> None:
    """A NIC gets the MTU of its interface in the pod, keeps what it started with, and has 1500 without any."""
    plugged = Nic(name="plugged", mac="02:00:00:00:00:03", slot=6, link="pod2")
    domain = Domain(name="vm1", memory="/m", nics=(LAN, ODD, plugged)).with_mtus({"pod1": 9000, "pod2": 1400})
    assert [nic.mtu for nic in domain.nics] == [1450, 1500, 1400]
    assert domain.with_mtus({"pod2": 9000}) == domain


def test_addresses_follow_the_slots() -> None:
    """The guest gives an address to the interface that its kernel numbers by the slot."""
    line = " ".join(words(Domain(name="vm1", memory="/m", nics=(LAN, Nic(name="first", mac="02::", slot=3)))))
    assert "guest_address_eth1=10.0.0.1/24" in line


def test_incoming() -> None:
    """A QEMU for a guest from elsewhere differs in that it waits."""
    domain = Domain(name="vm1", memory="/m", nics=(LAN,))
    assert words(domain, incoming=True) == (*words(domain), "-incoming", "defer")


def test_slots() -> None:
    """The lowest slot that is free is taken, and a machine with all of them is refused."""
    assert free_slot([LAN]) == 5
    with pytest.raises(ValueError, match="at most 28 NICs"):
        free_slot(Nic(name=str(slot), mac="", slot=slot) for slot in range(4, LAST_SLOT + 1))
