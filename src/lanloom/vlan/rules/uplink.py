"""What a VlanConfig asks of a node's bond, read strictly: it ends up in the kernel."""

import re

from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import BondOptions, ClusterNetwork, VlanConfig
from lanloom.api.l3 import quote
from lanloom.node.guards import BOND_MODES
from lanloom.vlan.rules.names import is_link

DEFAULT_MTU = 1500
MTU_MIN, MTU_MAX = 576, 9000
"""Bytes: what every IPv4 host must take (RFC 791), and what switches commonly take."""

DEFAULT_MIIMON = 100
"""Milliseconds between checks of a bond's links. The kernel's own default, 0, never notices a dead link."""

NUMBER_MAX = 2**31 - 1
"""The largest number that the kernel takes for miimon, and that is a sensible length of a queue."""

_NUMBER = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)


class UplinkOptions(Struct, frozen=True, kw_only=True):
    """The bond of a cluster network on a node. `mode` is empty where it can't be told: then there is no bond."""

    nics: tuple[str, ...]
    mode: str
    miimon: int
    mtu: int
    tx_queue_length: int | None
    mac: str


def parse_uplink(network: ClusterNetwork, config: VlanConfig) -> tuple[UplinkOptions, tuple[str, ...]]:
    """The options, and complaints about what can't be used.

    The MTU is that which the manager wrote on the ClusterNetwork, so that all its nodes change together, else the
    VlanConfig's own.
    """
    uplink = config.spec.uplink
    attributes = uplink.linkAttributes
    mac, mode = parse_mac(attributes.hardwareAddr), uplink.bondOptions.mode
    complaints = []
    where = f"of VlanConfig {config.metadata.name}"
    if mode not in BOND_MODES:
        known = ", ".join(BOND_MODES)
        complaints.append(f"spec.uplink.bondOptions.mode {where} is {quote(mode)}; it must be one of {known}")
    if attributes.hardwareAddr and not mac:
        complaints.append(
            f"spec.uplink.linkAttributes.hardwareAddr {where} is {quote(attributes.hardwareAddr)}; "
            "it must be the address of one host, such as 02:00:5e:10:00:01"
        )
    complaints += [
        f"spec.uplink.nics {where} has {quote(nic)}, which can't be the name of a NIC; correct it"
        for nic in uplink.nics
        if not is_link(nic)
    ]
    options = UplinkOptions(
        nics=tuple(dict.fromkeys(nic for nic in uplink.nics if is_link(nic))),
        mode=mode if mode in BOND_MODES else "",
        miimon=_miimon(uplink.bondOptions),
        mtu=uplink_mtu(network) or _mtu(attributes.mtu) or DEFAULT_MTU,
        tx_queue_length=attributes.txQLen if 0 < attributes.txQLen <= NUMBER_MAX else None,
        mac=mac,
    )
    return options, tuple(complaints)


def uplink_mtu(network: ClusterNetwork) -> int:
    """The MTU in bytes that the manager wrote on a ClusterNetwork; 0 where there is none that a link could have."""
    text = network.metadata.annotations.get(names.UPLINK_MTU, "")
    return _mtu(int(text)) if _NUMBER.fullmatch(text) else 0


def _mtu(value: int) -> int:
    return value if MTU_MIN <= value <= MTU_MAX else 0


def _miimon(options: BondOptions) -> int:
    return options.miimon if 0 < options.miimon <= NUMBER_MAX else DEFAULT_MIIMON


def parse_mac(text: str) -> str:
    """A unicast MAC address in the kernel's form; empty for anything else."""
    mac = text.lower().replace("-", ":")
    usable = _MAC.fullmatch(mac) and not int(mac[:2], 16) & 1 and mac != "00:00:00:00:00:00"
    return mac if usable else ""
