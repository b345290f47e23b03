"""A cluster network's uplink on a node: what a VlanConfig asks for, and the bond, bridge and VLAN ids that follow.

The options are read strictly, because they end up in the kernel.
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from lanloom.api import names
from lanloom.api.bonds import BOND_MODES, BondOptions, BondSettings, parse_bond_settings
from lanloom.api.harvester import (
    DEFAULT_MTU,
    ClusterNetwork,
    VlanConfig,
    parse_mac,
    parse_tx_queue_length,
    parse_uplink_mtu,
    usable_mtu,
)
from lanloom.api.l3 import AnnotationError
from lanloom.features.vlan.rules.desired.names import is_link
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem, blocked, is_down, kept_ids
from lanloom.features.vlan.rules.desired.owned import foreign_interfaces
from lanloom.node.marks import MARK, describe_owner
from lanloom.node.ownership import UNNAMED, Named, is_made_by_plugin, is_ours
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import AddVlans, EnsureBond, EnsureBridge, RemoveVlans, SetMaster, SetMtu, SetUp
from lanloom.node.vlanids import VlanIds, subtract, vlan_ids
from lanloom.text import quote

DEFAULT_MIIMON = 100
"""Milliseconds between checks of a bond's links. The kernel's own default, 0, never notices a dead link."""

LONGEST_MIIMON = 2**31 - 1
"""The largest number that the kernel takes: what was admitted once, by whomever, is carried."""


class UplinkOptions(Struct, frozen=True, kw_only=True):
    """The bond of a cluster network on a node. `mode` is empty where it is unknown: then there is no bond.

    `miimon` is 0 where the bond monitors its NICs by ARP.
    """

    nics: tuple[str, ...]
    mode: str
    miimon: int
    mtu: int
    tx_queue_length: int | None
    mac: str
    settings: BondSettings


def parse_uplink(network: ClusterNetwork, config: VlanConfig) -> tuple[UplinkOptions, tuple[str, ...]]:
    """Return the options, and complaints about what can't be used.

    The MTU is that which the manager wrote on the ClusterNetwork, so that all its nodes change together, else the
    VlanConfig's own.
    """
    uplink = config.spec.uplink
    attributes, mode = uplink.linkAttributes, uplink.bondOptions.mode
    mac, queue = _mac(attributes.hardwareAddr), _queue(attributes.txQLen)
    complaints = [str(item) for item in (_mode(mode), mac, queue) if isinstance(item, AnnotationError)]
    nics = tuple(dict.fromkeys(nic for nic in uplink.nics if is_link(nic)))
    settings, errors = parse_bond_settings(uplink.bondOptions, nics)
    complaints += map(str, errors)
    complaints += [
        f"nics has {quote(nic)}, which is not a valid NIC name; correct it"
        for nic in uplink.nics
        if not is_link(nic)
    ]
    options = UplinkOptions(
        nics=nics,
        mode=mode if mode in BOND_MODES else "",
        miimon=0 if settings.arp_interval else _miimon(uplink.bondOptions),
        mtu=uplink_mtu(network) or usable_mtu(attributes.mtu) or DEFAULT_MTU,
        tx_queue_length=queue if isinstance(queue, int) else None,
        mac=mac if isinstance(mac, str) else "",
        settings=settings,
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
    """Return the MTU in bytes that the manager wrote on a ClusterNetwork.

    0 where there is none that a link could have.
    """
    try:
        return parse_uplink_mtu(names.UPLINK_MTU, network.metadata.annotations.get(names.UPLINK_MTU, "0"))
    except AnnotationError:
        return 0


def _miimon(options: BondOptions) -> int:
    return options.miimon if 0 < options.miimon <= LONGEST_MIIMON else DEFAULT_MIIMON


_DEFAULT_ID: VlanIds = ((1, 1),)


def problems_of(network: NodeNetwork, observed: LinkState, named: Named = UNNAMED) -> tuple[Problem, ...]:
    """Return the problems that forbid building the uplink (`keep`), or adding a NIC (its name in `network`).

    One of a VLAN has its `vid`: others have a link of the name of the sub-interface.
    """
    if blocked(network.uplink_problems):
        return network.uplink_problems
    for name in (network.bridge, network.bond):
        link = observed.links.get(name)
        if link is not None and not is_ours(link) and not _is_adoptable(link, network, observed):
            message = (
                f"the link {name} exists and was not created by Lanloom; if Harvester's network controller left it, run"
                " `lanloom harvester adopt`; if no other program manages it, give it to Lanloom by "
                f"`ip link set {name} alias {MARK}`; both interrupt nothing; remove it only if nothing uses it"
            )
            if link.owner_uid:
                message = (
                    f"the link {name} belongs to {describe_owner(link.alias)}; "
                    "delete that one, or give this cluster network another name"
                )
            return (Problem(vid=0, network=name, reason="ForeignLink", message=message, keep=True),)
    problems = list(network.uplink_problems)
    problems += [problem for nic in network.nics if (problem := _nic_problem(nic, network, observed))]
    if not (network.nics or network.uplink_problems):
        problems.append(
            _uplink_problem(
                "", "UplinkMissing", f"VlanConfig {network.vlan_config} names no NIC in spec.uplink.nics"
            )
        )
    return (*problems, *foreign_interfaces(network, observed, named))


def _is_adoptable(link: Link, network: NodeNetwork, observed: LinkState) -> bool:
    """Return whether this is the bridge's place, and CNI's plugin made it for a pod that was quicker than the agent."""
    is_free = link.name == network.bridge and not link.owner_uid
    return is_free and is_made_by_plugin(link, observed.links, filtering=True)


def _nic_problem(nic: str, network: NodeNetwork, observed: LinkState) -> Problem | None:
    link = observed.links.get(nic)
    if link is None:
        return _uplink_problem(
            nic,
            "UplinkMissing",
            f"the NIC {nic} of VlanConfig {network.vlan_config} does not exist here; correct spec.uplink.nics",
        )
    if link.master == network.bond:
        return None
    if is_ours(link):
        return _uplink_problem(
            nic, "UplinkInUse", f"{nic} is a link that Lanloom created; name a NIC of the node instead"
        )
    if link.master:
        return _uplink_problem(nic, "UplinkInUse", f"the NIC {nic} already belongs to {link.master}")
    for user in (link, *_above(nic, observed)):
        use = _use(user, link, observed)
        if use:
            return _uplink_problem(nic, "UplinkInUse", f"the NIC {nic} {use}")
    return None


def _above(nic: str, observed: LinkState) -> Iterator[Link]:
    """Yield the links that stand on a NIC, such as its VLANs: they go down with it when it gets into the bond."""
    for link in observed.links.values():
        if link.parent == nic != link.name:
            yield link
            yield from _above(link.name, observed)


def _use(user: Link, nic: Link, observed: LinkState) -> str:
    """Return the use of a NIC by itself, or by a link above it; empty for none."""
    over = "" if user is nic else f" over {user.name}"
    if user.name in observed.default_route_links:
        return f"carries the node's default route{over}; taking it would cut the node off"
    if address := next(iter((*user.addresses, *user.addresses6)), ""):
        return f"has the address {address}{over}; remove it first"
    return f"belongs to {user.master}{over}; release it there first" if user.master else ""


def _uplink_problem(nic: str, reason: str, message: str) -> Problem:
    return Problem(vid=0, network=nic, reason=reason, message=message)


def build_steps(
    network: NodeNetwork,
    observed: LinkState,
    problems: tuple[Problem, ...],
    held: frozenset[int] = frozenset(),
) -> tuple[LinkStep, ...]:
    """Return the steps from the observed links to the desired uplink, without the links that have a problem.

    `held` are VLAN ids that links of others on the bridge need.
    """
    unusable = {item.network for item in problems}
    links = observed.links
    bond, bridge = links.get(network.bond), links.get(network.bridge)
    steps: list[LinkStep] = []
    members = {name for name, link in links.items() if link.master == network.bond}
    if bond is None or not _bond_fits(bond, network, members):
        steps.append(
            EnsureBond(
                name=network.bond,
                mode=network.mode,
                miimon=network.miimon,
                mtu=network.mtu,
                tx_queue_length=network.tx_queue_length,
                mac=network.mac,
                settings=network.settings,
            )
        )
    steps += [SetMaster(link=name, master="") for name in sorted(members - set(network.nics))]
    steps += [
        SetMaster(link=nic, master=network.bond) for nic in network.nics if nic not in members | unusable
    ]
    steps += [
        step for nic in network.nics if nic in members for step in _nic_steps(links[nic], bond, network)
    ]
    if bridge is None or not (
        is_ours(bridge) and bridge.up and bridge.vlan_filtering and bridge.mtu == network.mtu
    ):
        steps.append(EnsureBridge(name=network.bridge, mtu=network.mtu))
    if bond is None or bond.master != network.bridge:
        steps.append(SetMaster(link=network.bond, master=network.bridge))
    steps += [
        SetUp(link=item.name, named=True)
        for item in network.interfaces
        if item.name not in unusable and is_down(item, observed)
    ]
    kept = kept_ids(network)
    kept = None if kept is None else kept | held
    attached = bond is not None and bond.master == network.bridge
    has = bond.vlans if bond is not None and attached else ()
    steps += _vlan_steps(network.bond, has, network.uplink_ids, kept, self_=False)
    steps += _vlan_steps(
        network.bridge, bridge.self_vlans if bridge else (), network.bridge_ids, kept, self_=True
    )
    return tuple(steps)


def _nic_steps(nic: Link, bond: Link | None, network: NodeNetwork) -> Iterable[LinkStep]:
    """Yield the steps for a NIC in its bond: up, and with the bond's MTU. A bond passes it on only when it changes."""
    if bond is not None and nic.mtu != network.mtu == bond.mtu:
        yield SetMtu(link=nic.name, mtu=network.mtu)
    if not nic.up:
        yield SetUp(link=nic.name)


def _bond_fits(bond: Link, network: NodeNetwork, members: Collection[str]) -> bool:
    # The kernel keeps the name of a primary NIC that is not in the bond yet, and does not show it.
    hidden = set() if network.settings.primary in members else {"primary"}
    has = (bond.bond_mode, bond.bond_miimon, bond.mtu)
    return (
        bond.up
        and has == (network.mode, network.miimon, network.mtu)
        and network.tx_queue_length in (None, bond.tx_queue_length)
        and network.mac in ("", bond.mac)
        and not network.settings.differing(bond.bond_settings).keys() - hidden
    )


def _vlan_steps(
    link: str, has: VlanIds, wants: VlanIds, kept: frozenset[int] | None, *, self_: bool
) -> Iterable[LinkStep]:
    if missing := subtract(wants, has):
        yield AddVlans(link=link, ids=missing, self_=self_)
    orphans = subtract(subtract(has, wants), _DEFAULT_ID)
    if kept is not None and (orphans := subtract(orphans, vlan_ids(kept))):
        yield RemoveVlans(link=link, ids=orphans, self_=self_)
