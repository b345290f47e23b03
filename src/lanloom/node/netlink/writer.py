"""Steps as rtnetlink messages: what has its effect already is not sent again.

`LinkWriter` is the one writer of links. `apply` is the table of adapters by the type of the step; a feature registers
those of its own steps: `@apply.register` on a function of the step and the writer.
"""

import errno
import socket
from binascii import crc32
from functools import singledispatch
from ipaddress import IPv6Interface

from lanloom.node.errors import KernelUnsupported
from lanloom.node.marks import MARK, UNFINISHED
from lanloom.node.netlink import changes
from lanloom.node.netlink.addressing import add_route, addresses_of, promote_secondaries, remove_address
from lanloom.node.netlink.bonds import SET_WHILE_DOWN, encode_miimon, encode_mode, encode_settings
from lanloom.node.netlink.bridgeports import change_vlans
from lanloom.node.netlink.changes import address, alias, info, master, name
from lanloom.node.netlink.dump import inspect_bridge, read_links
from lanloom.node.netlink.messages import (
    IFLA_AF_SPEC,
    IFLA_BR_STP_STATE,
    IFLA_BR_VLAN_FILTERING,
    IFLA_INET6_ADDR_GEN_MODE,
    IFLA_MTU,
    IFLA_TXQLEN,
    NO_ADDRESS,
    attribute,
    nested,
    tolerating,
    word,
)
from lanloom.node.netlink.routing import add_rule
from lanloom.node.ownership import is_ours
from lanloom.node.ports import LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    Mark,
    PromoteSecondaries,
    RemoveAddress6,
    RemoveVlans,
    RestoreRoutes,
    SetMaster,
    SetMtu,
    SetUp,
    Unmark,
)
from lanloom.node.vlanids import VlanEntry

NO_LINK_LOCAL = nested(
    IFLA_AF_SPEC, nested(socket.AF_INET6, attribute(IFLA_INET6_ADDR_GEN_MODE, bytes([NO_ADDRESS])))
)
"""No IPv6 link-local address: the host must not become reachable on a network that only its guests are meant to
be on."""


class LinkWriter:
    """Changes links through one socket, and knows them in `links` as of the last `refresh`.

    Every method raises OSError with the kernel's number and words.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.links = read_links(sock)

    def write(self, step: LinkStep) -> None:
        """Apply one step. Raises LinkError and its kinds; a step that failed may have had a part of its effect."""
        if step.inspects:
            self.links = inspect_bridge(self.sock, self.links, step.inspects)
        step.guard(self.links)
        try:
            apply(step, self)
        except OSError as error:
            raise step.refusal(error) from error

    def refresh(self) -> None:
        """Read all links again."""
        self.links = read_links(self.sock)

    def add(self, link: str, kind: str, data: bytes, attributes: bytes = b"") -> None:
        """Make a link of a kind, down, with the attributes `data` of that kind."""
        changes.add(self.sock, name(link) + info(kind, data) + attributes)

    def change(self, index: int, attributes: bytes) -> None:
        """Change attributes of a link."""
        changes.change(self.sock, index, attributes)

    def set_up(self, index: int, *, up: bool = True) -> None:
        """Set a link up or down."""
        changes.set_up(self.sock, index, up=up)

    def delete(self, link: str) -> None:
        """Delete a link; one that is gone is no error."""
        if link in self.links:
            changes.delete(self.sock, self.links[link].index)
            self.refresh()

    def make_ours(self, link: str, kind: str, data: bytes) -> None:
        """Make a link with Lanloom's mark.

        The kernel takes no ifalias when it makes one, and a link whose maker died before it could mark it would never
        be owned.
        """
        if UNFINISHED in self.links:
            self.delete(UNFINISHED)
        self.add(UNFINISHED, kind, data)
        self.refresh()
        index = self.links[UNFINISHED].index
        self.take_no_address(index)
        self.change(index, name(link) + alias(MARK))
        self.refresh()

    def take_no_address(self, index: int) -> None:
        """Give a link no IPv6 link-local address from now on."""
        with tolerating(errno.EAFNOSUPPORT):  # a kernel with ipv6.disable=1 gives no such addresses anyway
            self.change(index, NO_LINK_LOCAL)

    def drop_link_local(self, index: int) -> None:
        """Remove the IPv6 link-local addresses of a bridge that CNI's plugin made, and give it none again."""
        self.take_no_address(index)
        for found in addresses_of(self.sock, index):
            if isinstance(found, IPv6Interface) and found.is_link_local:
                remove_address(self.sock, index, found)

    def set_master(self, link: str, master_name: str) -> None:
        """Put a link under a master and up, or release it."""
        found = self.links[link]
        if found.master != master_name:
            if master_name and self.links[master_name].kind == "bond" and found.up:
                self.set_up(found.index, up=False)
            self.change(found.index, master(self.links[master_name].index if master_name else 0))
            self.refresh()
        if master_name and not self.links[link].up:
            self.set_up(found.index)
            self.refresh()

    def adjust(
        self, link: str, *, mtu: int = 0, up: bool = False, tx_queue_length: int | None = None, mac: str = ""
    ) -> None:
        """Change what differs of a link."""
        found = self.links[link]
        if mac and found.mac != mac:
            self.change(found.index, address(mac))
        if tx_queue_length is not None and found.tx_queue_length != tx_queue_length:
            self.change(found.index, word(IFLA_TXQLEN, tx_queue_length))
        if mtu and found.mtu != mtu:
            self.change(found.index, word(IFLA_MTU, mtu))
        if up and not found.up:
            self.set_up(found.index)
        self.refresh()


@singledispatch
def apply(step: LinkStep, writer: LinkWriter) -> None:
    """Apply a step that its guard let pass, by the adapter of its type.

    Raises OSError or LinkError, and TypeError for a type without an adapter.
    """
    raise TypeError(f"no adapter of the kernel is registered for {type(step).__name__}")


@apply.register
def _ensure_bond(step: EnsureBond, writer: LinkWriter) -> None:
    if step.name not in writer.links:
        writer.make_ours(step.name, "bond", encode_mode(step.mode))
    elif writer.links[step.name].bond_mode != step.mode:
        _change_mode(step, writer)
    _set_options(step, writer)
    writer.adjust(step.name, mtu=step.mtu, up=True, tx_queue_length=step.tx_queue_length, mac=step.mac)


def _change_mode(step: EnsureBond, writer: LinkWriter) -> None:
    # The kernel changes the mode only of a bond that is down and has no slaves.
    slaves = [link.name for link in writer.links.values() if link.master == step.name]
    for slave in slaves:
        writer.set_master(slave, "")
    index = writer.links[step.name].index
    writer.set_up(index, up=False)
    writer.change(index, info("bond", encode_mode(step.mode)))
    writer.refresh()  # the kernel forgets options that the mode has not
    for slave in slaves:
        writer.set_master(slave, step.name)


def _set_options(step: EnsureBond, writer: LinkWriter) -> None:
    bond = writer.links[step.name]
    data = b""
    if step.miimon is not None and bond.bond_miimon != step.miimon:
        data = encode_miimon(step.miimon)
    differing = step.settings.differing(bond.bond_settings)
    data += encode_settings(differing, {name: link.index for name, link in writer.links.items()})
    if not data:
        return
    if bond.up and SET_WHILE_DOWN & differing.keys():
        writer.set_up(bond.index, up=False)
    writer.change(bond.index, info("bond", data))
    writer.refresh()


@apply.register
def _ensure_bridge(step: EnsureBridge, writer: LinkWriter) -> None:
    filtering = attribute(IFLA_BR_VLAN_FILTERING, b"\1")
    if step.name not in writer.links:
        writer.make_ours(step.name, "bridge", filtering + word(IFLA_BR_STP_STATE, 0))
        # Until an MTU is set that differs from the one it has, a bridge takes the least of its ports'.
        writer.adjust(step.name, mtu=step.mtu ^ 1)
    elif not is_ours(writer.links[step.name]):
        _take_over(step, writer)
    if not writer.links[step.name].vlan_filtering:
        writer.change(writer.links[step.name].index, info("bridge", filtering))
        writer.refresh()
    if not writer.links[step.name].vlan_filtering:
        raise KernelUnsupported(
            f"{step.title}: this kernel's bridges don't filter VLANs; take one that has "
            "CONFIG_BRIDGE_VLAN_FILTERING"
        )
    writer.adjust(step.name, mtu=step.mtu, up=True)


def _take_over(step: EnsureBridge, writer: LinkWriter) -> None:
    """Make the plugin's bridge one as if it were made here. The mark comes last: a process that dies begins again."""
    index = writer.links[step.name].index
    writer.drop_link_local(index)
    writer.adjust(step.name, mtu=step.mtu ^ 1)
    writer.change(index, alias(MARK))
    writer.refresh()
    step.guard(writer.links)


@apply.register
def _set_master(step: SetMaster, writer: LinkWriter) -> None:
    writer.set_master(step.link, step.master)


@apply.register
def _set_mtu(step: SetMtu, writer: LinkWriter) -> None:
    writer.adjust(step.link, mtu=step.mtu)


@apply.register
def _set_up(step: SetUp, writer: LinkWriter) -> None:
    writer.adjust(step.link, up=True)


@apply.register
def _restore_routes(step: RestoreRoutes, writer: LinkWriter) -> None:
    index = writer.links[step.link].index
    for route in step.routes:
        # A route to neighbours names the address to use with them, as NetworkManager's own does, of IPv4 alone. Other
        # VLANs may have the same route.
        source = "" if route.via else step.source
        add_route(
            writer.sock,
            index,
            route.to,
            route.via,
            priority=step.metric,
            table=route.table,
            source=source,
            beside=True,
        )
    for rule in step.rules:
        add_rule(writer.sock, rule)


@apply.register
def _remove_address6(step: RemoveAddress6, writer: LinkWriter) -> None:
    remove_address(writer.sock, writer.links[step.link].index, IPv6Interface(step.address))


@apply.register
def _promote_secondaries(step: PromoteSecondaries, writer: LinkWriter) -> None:
    promote_secondaries(writer.sock, writer.links[step.link].index)


@apply.register(AddVlans)
@apply.register(RemoveVlans)
def _change_vlans(step: AddVlans | RemoveVlans, writer: LinkWriter) -> None:
    if step.ids and step.link in writer.links:
        entries = (VlanEntry(first, last) for first, last in step.ids)
        index, add = writer.links[step.link].index, isinstance(step, AddVlans)
        change_vlans(writer.sock, index, entries, add=add, on_bridge=step.self_)


@apply.register
def _delete(step: DeleteLink, writer: LinkWriter) -> None:
    writer.delete(step.name)


@apply.register
def _mark(step: Mark, writer: LinkWriter) -> None:
    if not writer.links[step.link].ours:
        writer.change(writer.links[step.link].index, alias(MARK))
        writer.refresh()


@apply.register
def _unmark(step: Unmark, writer: LinkWriter) -> None:
    if writer.links[step.link].ours:
        writer.change(writer.links[step.link].index, alias(""))
        writer.refresh()


def hardware_address(text: str) -> str:
    """Return a locally administered address for a link that is made under this name.

    A checksum does: what two bridges of a host are on never meets, and `hashlib` would take 4 MB of each process.
    """
    return f"02:00:{crc32(text.encode()).to_bytes(4, 'big').hex(':')}"
