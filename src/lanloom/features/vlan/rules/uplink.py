"""What a VlanConfig asks of a node's bond, read strictly: it ends up in the kernel."""

from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import (
    BOND_MODES,
    DEFAULT_MTU,
    BondOptions,
    ClusterNetwork,
    VlanConfig,
    parse_mac,
    parse_tx_queue_length,
    parse_uplink_mtu,
    usable_mtu,
)
from lanloom.api.l3 import AnnotationError
from lanloom.features.vlan.rules.names import is_link
from lanloom.text import quote

DEFAULT_MIIMON = 100
"""Milliseconds between checks of a bond's links. The kernel's own default, 0, never notices a dead link."""

LONGEST_MIIMON = 2**31 - 1
"""The largest number that the kernel takes: what was admitted once, by whomever, is carried."""


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
    attributes, mode = uplink.linkAttributes, uplink.bondOptions.mode
    mac, queue = _mac(attributes.hardwareAddr), _queue(attributes.txQLen)
    complaints = [str(item) for item in (_mode(mode), mac, queue) if isinstance(item, AnnotationError)]
    complaints += [
        f"nics has {quote(nic)}, which can't be the name of a NIC; correct it"
        for nic in uplink.nics
        if not is_link(nic)
    ]
    options = UplinkOptions(
        nics=tuple(dict.fromkeys(nic for nic in uplink.nics if is_link(nic))),
        mode=mode if mode in BOND_MODES else "",
        miimon=_miimon(uplink.bondOptions),
        mtu=uplink_mtu(network) or usable_mtu(attributes.mtu) or DEFAULT_MTU,
        tx_queue_length=queue if isinstance(queue, int) else None,
        mac=mac if isinstance(mac, str) else "",
    )
    return options, tuple(f"VlanConfig {config.metadata.name}: spec.uplink.{text}" for text in complaints)


def _mode(text: str) -> AnnotationError | None:
    if text in BOND_MODES:
        return None
    known = ", ".join(BOND_MODES)
    return AnnotationError("bondOptions.mode", f"is {quote(text)}; it must be one of {known}")


def _mac(text: str) -> str | AnnotationError:
    try:
        return parse_mac("linkAttributes.hardwareAddr", text) if text else ""
    except AnnotationError as error:
        return error


def _queue(length: int) -> int | AnnotationError | None:
    try:
        return parse_tx_queue_length("linkAttributes.txQLen", length) or None
    except AnnotationError as error:
        return error


def uplink_mtu(network: ClusterNetwork) -> int:
    """The MTU in bytes that the manager wrote on a ClusterNetwork; 0 where there is none that a link could have."""
    try:
        return parse_uplink_mtu(names.UPLINK_MTU, network.metadata.annotations.get(names.UPLINK_MTU, "0"))
    except AnnotationError:
        return 0


def _miimon(options: BondOptions) -> int:
    return options.miimon if 0 < options.miimon <= LONGEST_MIIMON else DEFAULT_MIIMON
