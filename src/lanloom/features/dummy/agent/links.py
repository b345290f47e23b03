"""The kernel's adapter of the steps of isolated bridges.

Several processes may apply them at once: each goes on where any of them has come to.
"""

import errno
import socket
from contextlib import suppress

from lanloom.features.dummy.rules.hostbridge import (
    EnsureIsolatedBridge,
    RemoveIsolatedBridge,
    alias_of,
    rules_of,
)
from lanloom.node.errors import LinkError
from lanloom.node.marks import unfinished_name
from lanloom.node.netlink import ingress
from lanloom.node.netlink.addressing import (
    PROTOCOL,
    add_address,
    addresses_with_origin,
    remove_address,
)
from lanloom.node.netlink.changes import address, alias, master, name
from lanloom.node.netlink.messages import (
    DEVCONF_ARP_IGNORE,
    DEVCONF_FORWARDING,
    DEVCONF_RP_FILTER,
    IFLA_AF_SPEC,
    IFLA_BR_STP_STATE,
    IFLA_INET_CONF,
    nested,
    tolerating,
    word,
)
from lanloom.node.netlink.writer import LinkWriter, apply, hardware_address
from lanloom.node.ports import IngressRule, Link
from lanloom.node.sysctl import ignore_routers

LOST_RACE = (errno.EEXIST, errno.EBUSY, errno.ENODEV)
"""The answers to one who finishes a bridge that another one has finished, or taken away, a moment before."""


@apply.register
def ensure(step: EnsureIsolatedBridge, writer: LinkWriter) -> None:
    """Make, mark or take over the bridge, keep the host out of it, set it up, and give it its lost ports."""
    missing = step.name not in writer.links
    if missing:
        _make(step, writer)
    elif writer.links[step.name].owner_uid != step.owner:
        _take_over(step, writer.links[step.name], writer)
    if step.name not in writer.links:
        raise LinkError(f"{step.title}: it was removed during its creation")
    bridge = writer.links[step.name]
    if not (bridge.ipv4_strict and bridge.forwarding == step.forwards_ipv4):
        restrict_ipv4(writer, bridge.index, forwarding=step.forwards_ipv4)
    if bridge.link_local:
        writer.drop_link_local(bridge.index)
    if not bridge.up:
        writer.set_up(bridge.index)
    _give_addresses(step, writer, bridge.index)
    _change_rules(step.name, step.ingress, writer)
    lost = step.lost_ports(writer.links) if missing else ()
    if lost:
        # A pod without privileges can't, and the reconciler reports the host then.
        with suppress(OSError):
            ignore_routers(step.name)
    for port in lost:
        with tolerating(errno.ENODEV):
            writer.change(port.index, master(bridge.index))
    writer.refresh()


@apply.register
def remove(step: RemoveIsolatedBridge, writer: LinkWriter) -> None:
    """Delete the bridge, unless something joined it since the dump that the step is from."""
    writer.refresh()
    step.guard(writer.links)
    # Before the bridge: the process after one that died here finds the bridge.
    _change_rules(step.name, frozenset(), writer)
    writer.delete(step.name)


def _make(step: EnsureIsolatedBridge, writer: LinkWriter) -> None:
    """Make a bridge with a hardware address of its own.

    Otherwise it takes the least of its ports', and none when the last has gone, which breaks a gateway; CNI's plugin
    fails at a bridge without one.
    """
    half = unfinished_name(step.owner)
    with tolerating(errno.EEXIST):
        writer.add(half, "bridge", word(IFLA_BR_STP_STATE, 0), address(hardware_address(half)))
    _reread(step, writer)
    if half in writer.links:
        index = writer.links[half].index
        with tolerating(*LOST_RACE):
            writer.take_no_address(index)
            writer.change(index, name(step.name) + alias(alias_of(step.owner)))
    _reread(step, writer)
    if step.name in writer.links and half in writer.links:
        writer.delete(half)  # made after another process had given its own the name


def _take_over(step: EnsureIsolatedBridge, link: Link, writer: LinkWriter) -> None:
    """Mark a bridge that is known, or that CNI's plugin made; that one loses its link-local addresses.

    The plugin fixes the hardware address of a gateway, which pods know by then; any other bridge gets one as if it were
    made here. The mark comes last: the process after one that died begins again.
    """
    if link.index != step.known:
        writer.drop_link_local(link.index)
        if not link.addresses:
            writer.change(link.index, address(hardware_address(unfinished_name(step.owner))))
    writer.change(link.index, alias(alias_of(step.owner)))
    _reread(step, writer)


def _give_addresses(step: EnsureIsolatedBridge, writer: LinkWriter, index: int) -> None:
    """Give the bridge the addresses of its gateways, and take those back that it was given for others.

    The kernel forgets those of IPv6 when the bridge is set down.
    """
    found = {str(each.cidr): each for each in addresses_with_origin(writer.sock, index)}
    for cidr, each in found.items():
        if each.protocol == PROTOCOL and cidr not in step.addresses:
            remove_address(writer.sock, index, each.cidr)
    for cidr in step.addresses:
        if cidr not in found:
            with tolerating(errno.EOPNOTSUPP, errno.EAFNOSUPPORT):  # without IPv6, which is another fault
                add_address(writer.sock, index, cidr, PROTOCOL)


def _change_rules(bridge: str, wanted: frozenset[IngressRule], writer: LinkWriter) -> None:
    found = rules_of(bridge, ingress.read(writer.sock) or ())
    for rule in sorted(wanted - found, reverse=True):  # what is passed comes before what is dropped
        ingress.add(writer.sock, rule)
    for rule in found - wanted:
        ingress.remove(writer.sock, rule)


def _reread(step: EnsureIsolatedBridge, writer: LinkWriter) -> None:
    writer.refresh()
    step.guard(writer.links)


def restrict_ipv4(writer: LinkWriter, index: int, *, forwarding: bool) -> None:
    """Keep the host out of a bridge's IPv4 but for that bridge's own addresses. Raises OSError.

    The kernel answers requests for every address of the host on every link, and takes and passes on packets that come
    in by one without an address: users of an isolated network would reach the node, and through it the outside,
    and could not use an address that the node has. With `forwarding` the bridge is a gateway.
    """
    settings = {DEVCONF_RP_FILTER: 1, DEVCONF_ARP_IGNORE: 1, DEVCONF_FORWARDING: int(forwarding)}
    wanted = b"".join(word(kind, value) for kind, value in settings.items())
    writer.change(index, nested(IFLA_AF_SPEC, nested(socket.AF_INET, nested(IFLA_INET_CONF, wanted))))
