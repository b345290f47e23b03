"""Uplinks of a cluster network on a lab: what can be changed in place is, and VLANs outlive it."""

from functools import partial
from typing import Any

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    Look,
    all_have,
    look,
    looks,
)
from tests.lab.objects import STATIC, vlan_config, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

CONFIG = "vlanconfig-1"
LINK = interface_name("cluster-1", 2012)
ALWAYS_THERE = "192.168.1.1"
"""The address of the switch in VLAN 2012, where the lab has a DHCP server."""


@pytest.fixture
def carrying(cluster: Lab) -> Lab:
    """The lab with VLAN 2012 of cluster-1 and static addresses on all nodes."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    return cluster


def indexes(seen: Look) -> list[int]:
    """The kernel's numbers of bridge and sub-interface, which a link that is made again does not keep."""
    return [seen.links[name]["ifindex"] for name in ("cluster-1-br", LINK)]


def option(lab: Lab, node: str, name: str = "mode") -> str:
    """An option of the bond as the kernel has it; empty while there is no bond."""
    said = lab.on(node, f"cat /sys/class/net/cluster-1-bo/bonding/{name}", status=None)
    return (said.split() or [""])[0]


def test_the_mtu_is_changed_in_place(carrying: Lab) -> None:
    """An MTU of 9000 comes onto NIC, bond, bridge and sub-interface, which stay the same links, and goes again."""
    before = indexes(look(carrying, "node1"))

    def has(mtu: int) -> bool:
        names = ("eth1", "cluster-1-bo", "cluster-1-br", LINK)
        return all(
            seen.links.get(name, {}).get("mtu") == mtu
            for seen in looks(carrying, NODES).values()
            for name in names
        )

    for mtu in (9000, 1500):
        carrying.apply(vlan_config(CONFIG, "cluster-1", mtu=mtu))
        eventually(partial(has, mtu))
        assert indexes(look(carrying, "node1")) == before
        assert all_have(carrying, "cluster-1", 2012) == STATIC


@pytest.mark.kernel
def test_the_bond_mode_is_changed(carrying: Lab) -> None:
    """Another bond mode comes into force, and the VLAN with its address is there on the same bridge as before."""
    before = look(carrying, "node1").links["cluster-1-br"]["ifindex"]
    carrying.apply(vlan_config(CONFIG, "cluster-1", mode="balance-xor"))
    eventually(lambda: all(option(carrying, node) == "balance-xor" for node in NODES))
    eventually(lambda: all_have(carrying, "cluster-1", 2012) == STATIC)
    assert look(carrying, "node1").links["cluster-1-br"]["ifindex"] == before
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))


def test_bond_options(carrying: Lab) -> None:
    """Hash policy and LACP rate of a switch come into force, and go where the mode has none; the VLAN stays."""
    before = indexes(look(carrying, "node1"))
    switch: dict[str, Any] = {"xmitHashPolicy": "layer3+4", "lacpRate": "fast"}
    carrying.apply(vlan_config(CONFIG, "cluster-1", mode="802.3ad", **switch))
    wanted = {"mode": "802.3ad", "xmit_hash_policy": "layer3+4", "lacp_rate": "fast"}

    def has(node: str) -> dict[str, str]:
        return {name: option(carrying, node, name) for name in wanted}

    eventually(lambda: all(has(node) == wanted for node in NODES))
    carrying.apply(vlan_config(CONFIG, "cluster-1", nics=["eth1", "eth2"], primary="eth2"))
    eventually(lambda: all(option(carrying, node, "active_slave") == "eth2" for node in NODES))
    assert indexes(look(carrying, "node1")) == before
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))
    refused = carrying.apply(vlan_config(CONFIG, "cluster-1", lacpRate="fast"), fails=True)
    assert (
        "spec.uplink.bondOptions.lacpRate is set, but a bond in mode active-backup does not have it"
        in refused
    )


def test_a_bond_is_monitored_by_arp(carrying: Lab) -> None:
    """A bond asks an address of the VLAN whether its NICs carry, and loses nothing where that takes miimon's place."""
    before = indexes(look(carrying, "node1"))
    asked: dict[str, Any] = {"arpInterval": 200, "arpIpTargets": [ALWAYS_THERE], "arpValidate": "all"}
    by_arp = {"arp_interval": "200", "arp_ip_target": ALWAYS_THERE, "arp_validate": "all", "miimon": "0"}
    by_carrier = {"arp_interval": "0", "miimon": "100"}

    def has(wanted: dict[str, str]) -> bool:
        return all({name: option(carrying, node, name) for name in wanted} == wanted for node in NODES)

    carrying.apply(vlan_config(CONFIG, "cluster-1", **asked))
    eventually(lambda: has(by_arp))
    eventually(lambda: has({"mii_status": "up", "active_slave": "eth1"}))
    carrying.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    assert indexes(look(carrying, "node1")) == before
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))
    for other, message in (
        (
            {"miimon": 100},
            "arpInterval is 200 and miimon is 100, but a bond monitors its NICs in one way only",
        ),
        ({"mode": "802.3ad"}, "arpInterval is set, but a bond in mode 802.3ad does not have it"),
    ):
        refused = carrying.apply(vlan_config(CONFIG, "cluster-1", **asked | other), fails=True)
        assert f"spec.uplink.bondOptions.{message}" in refused
    carrying.apply(vlan_config(CONFIG, "cluster-1"))
    eventually(lambda: has(by_carrier))
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))


def test_several_uplinks(carrying: Lab) -> None:
    """A second NIC joins the bond, carries the traffic when the first one fails, and is released again."""
    carrying.apply(vlan_config(CONFIG, "cluster-1", nics=["eth1", "eth2"]))

    def bonded(nic: str) -> bool:
        return look(carrying, "node1").links[nic].get("master") == "cluster-1-bo"

    eventually(lambda: bonded("eth1") and bonded("eth2"))
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))
    carrying.apply(vlan_config(CONFIG, "cluster-1", nics=["eth2"]))
    eventually(lambda: not bonded("eth1"))
    eventually(lambda: carrying.reaches("node1", "192.168.1.12"))
    carrying.apply(vlan_config(CONFIG, "cluster-1"))
    eventually(lambda: bonded("eth1") and not bonded("eth2"))
    eventually(lambda: all_have(carrying, "cluster-1", 2012) == STATIC)


def test_a_missing_nic_is_told(cluster: Lab) -> None:
    """A NIC that a node does not have is named by the node's report."""
    cluster.apply(vlan_config(CONFIG, "cluster-1", nics=["eth1", "eth7"]))
    eventually(lambda: "eth7" in cluster.kubectl("get", "clusternetworknodes", "-o", "yaml"))
