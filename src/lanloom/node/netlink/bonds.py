"""Options of bonds as attributes of rtnetlink (linux/if_link.h)."""

from collections.abc import Mapping
from ipaddress import IPv4Address

from lanloom.api.bonds import (
    AD_SELECTS,
    ARP_ALL_TARGETS,
    ARP_VALIDATIONS,
    BOND_MODES,
    LACP_RATES,
    XMIT_HASH_POLICIES,
    BondSettings,
)
from lanloom.node.netlink.messages import Attributes, attribute, attributes, nested, number, word

IFLA_BOND_MODE, IFLA_BOND_MIIMON, IFLA_BOND_ARP_INTERVAL, IFLA_BOND_ARP_IP_TARGET = 1, 3, 7, 8
IFLA_BOND_ARP_VALIDATE, IFLA_BOND_ARP_ALL_TARGETS, IFLA_BOND_PRIMARY = 9, 10, 11
IFLA_BOND_XMIT_HASH_POLICY, IFLA_BOND_AD_LACP_RATE, IFLA_BOND_AD_SELECT = 14, 21, 22

SET_WHILE_DOWN = frozenset({"lacp_rate", "ad_select"})
"""The options that the kernel takes only from a bond that is down."""

# An option's attribute, its values in the order of the kernel's numbers, and the number's bytes.
_NUMBERED = {
    "xmit_hash_policy": (IFLA_BOND_XMIT_HASH_POLICY, XMIT_HASH_POLICIES, 1),
    "lacp_rate": (IFLA_BOND_AD_LACP_RATE, LACP_RATES, 1),
    "ad_select": (IFLA_BOND_AD_SELECT, AD_SELECTS, 1),
    "arp_validate": (IFLA_BOND_ARP_VALIDATE, ARP_VALIDATIONS, 4),
    "arp_all_targets": (IFLA_BOND_ARP_ALL_TARGETS, ARP_ALL_TARGETS, 4),
}


def encode_mode(mode: str) -> bytes:
    """Return the attribute for a bond's mode."""
    return attribute(IFLA_BOND_MODE, bytes([BOND_MODES.index(mode)]))


def encode_miimon(miimon: int) -> bytes:
    """Return the attribute for a bond's miimon in milliseconds."""
    return word(IFLA_BOND_MIIMON, miimon)


def encode_settings(settings: Mapping[str, object], indexes: Mapping[str, int]) -> bytes:
    """Return the attributes for options by their names in BondSettings.

    `indexes` are those of links by name: a primary NIC that the host has not is left out.
    """
    return b"".join(_encode(name, value, indexes) for name, value in settings.items())


def _encode(name: str, value: object, indexes: Mapping[str, int]) -> bytes:
    match name, value:
        case "arp_interval", int():
            return word(IFLA_BOND_ARP_INTERVAL, value)
        case "arp_ip_targets", tuple():
            targets = (attribute(position, IPv4Address(text).packed) for position, text in enumerate(value))
            return nested(IFLA_BOND_ARP_IP_TARGET, b"".join(targets))
        case "primary", str():
            return word(IFLA_BOND_PRIMARY, indexes[value]) if value in indexes else b""
    kind, values, size = _NUMBERED[name]
    code = values.index(str(value))
    return word(kind, code) if size == 4 else attribute(kind, bytes([code]))


def decode_settings(data: Attributes, primary: str) -> BondSettings:
    """Return the options of a bond, given the name of its primary NIC; a value that is not known reads as none."""
    numbered = {
        name: values[code] if kind in data and (code := number(data[kind])) < len(values) else ""
        for name, (kind, values, _) in _NUMBERED.items()
    }
    targets = attributes(data.get(IFLA_BOND_ARP_IP_TARGET, b"")).values()
    return BondSettings(
        **numbered,
        arp_interval=number(data.get(IFLA_BOND_ARP_INTERVAL)),
        arp_ip_targets=tuple(str(IPv4Address(item)) for item in targets),
        primary=primary,
    )
