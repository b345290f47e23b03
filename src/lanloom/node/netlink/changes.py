"""Steps as rtnetlink messages: what has its effect already is not sent again."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lanloom.api.uplinks import BOND_MODES
from lanloom.node.errors import KernelUnsupported, LinkError
from lanloom.node.guards import describe, guard, lost_ports
from lanloom.node.isolated import unfinished_name
from lanloom.node.netlink import isolated
from lanloom.node.netlink.dump import look_closely, read_links
from lanloom.node.netlink.messages import tolerating
from lanloom.node.netlink.remedies import refusal
from lanloom.node.netlink.vlans import add_vlans, remove_vlans
from lanloom.node.ports import MARK, Link
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    EnsureIsolatedBridge,
    LinkStep,
    RemoveIsolatedBridge,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)

if TYPE_CHECKING:
    from lanloom.node.netlink.route import Route

UNFINISHED = "lanloom-new"
"""The name of a link until it has its mark: the kernel takes no ifalias when it makes a link, and a link that
was made by an agent that died before it could mark it would be nobody's for ever. Renaming and marking are one
message."""

NO_ADDRESSES = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", 1)]})]}
"""No IPv6 link-local address: the host must not become reachable on a network that only its guests are meant to
be on."""


class Changes:
    """Applies steps, and knows the links as these steps leave them.

    Looks, and changes VLAN ids and isolated bridges, through `dumps`; `open_route` is called when the first other
    change is due.
    """

    def __init__(self, open_route: Callable[[], "Route"], dumps: socket.socket) -> None:
        self._open_route = open_route
        self._dumps = dumps
        self._links = read_links(dumps)

    @cached_property
    def _route(self) -> "Route":
        return self._open_route()

    def apply(self, step: LinkStep) -> None:
        """Applies one step. Raises LinkError and its kinds; a step that failed may have had a part of its effect."""
        if isinstance(step, EnsureIsolatedBridge):
            self._links = look_closely(self._dumps, self._links, step.name)
        guard(step, self._links)
        with _explained(step):
            self._dispatch(step)

    def _dispatch(self, step: LinkStep) -> None:
        match step:
            case EnsureBond():
                self._ensure_bond(step)
            case EnsureBridge():
                self._ensure_bridge(step)
            case SetMaster():
                self._set_master(step.link, step.master)
            case SetMtu():
                self._adjust(step.link, mtu=step.mtu)
            case SetUp():
                self._adjust(step.link, up=True)
            case AddVlans():
                add_vlans(self._dumps, self._links[step.link].index, step.ids, on_bridge=step.self_)
            case RemoveVlans():
                if step.link in self._links:
                    index = self._links[step.link].index
                    remove_vlans(self._dumps, index, step.ids, on_bridge=step.self_)
            case DeleteLink():
                self._delete(step.name)
            case EnsureIsolatedBridge():
                self._ensure_isolated(step)
            case RemoveIsolatedBridge():
                self._remove_isolated(step)

    def _ensure_bond(self, step: EnsureBond) -> None:
        if step.name not in self._links:
            self._make(step.name, kind="bond", bond_mode=BOND_MODES.index(step.mode))
        elif self._links[step.name].bond_mode != step.mode:
            self._change_mode(step.name, step.mode)
        if step.miimon is not None and self._links[step.name].bond_miimon != step.miimon:
            self._set(step.name, kind="bond", bond_miimon=step.miimon)
        self._adjust(step.name, mtu=step.mtu, up=True, tx_queue_length=step.tx_queue_length, mac=step.mac)

    def _change_mode(self, name: str, mode: str) -> None:
        # The kernel changes the mode only of a bond that is down and has no slaves.
        slaves = [link.name for link in self._links.values() if link.master == name]
        for slave in slaves:
            self._set_master(slave, "")
        self._set(name, state="down")
        self._set(name, kind="bond", bond_mode=BOND_MODES.index(mode))
        for slave in slaves:
            self._set_master(slave, name)

    def _ensure_bridge(self, step: EnsureBridge) -> None:
        if step.name not in self._links:
            self._make(step.name, kind="bridge", br_vlan_filtering=1, br_stp_state=0)
            # Until an MTU is set that differs from the one it has, a bridge takes the least of its ports'.
            self._adjust(step.name, mtu=step.mtu ^ 1)
        elif not self._links[step.name].vlan_filtering:
            self._set(step.name, kind="bridge", br_vlan_filtering=1)
            self._refresh()
        if not self._links[step.name].vlan_filtering:
            raise KernelUnsupported(
                f"{describe(step)}: this kernel's bridges don't filter VLANs; take one that has "
                "CONFIG_BRIDGE_VLAN_FILTERING"
            )
        self._adjust(step.name, mtu=step.mtu, up=True)

    def _ensure_isolated(self, step: EnsureIsolatedBridge) -> None:
        # Others may do the same at the same moment: each goes on where any of them has come to.
        missing = step.name not in self._links
        if missing:
            half = unfinished_name(step.owner)
            isolated.make(self._dumps, half)
            self._refresh()
            guard(step, self._links)
            if half in self._links:
                isolated.finish(self._dumps, self._links[half].index, step.name, step.owner)
            self._refresh()
            guard(step, self._links)
        elif self._links[step.name].isolated_owner != step.owner:
            self._take_over(step, self._links[step.name])
            self._refresh()
            guard(step, self._links)
        if step.name not in self._links:
            raise LinkError(f"{describe(step)}: it was taken away while it was made")
        bridge = self._links[step.name]
        if not (bridge.secluded and bridge.forwarding == bool(step.gateway)):
            isolated.seclude(self._dumps, bridge.index, forwarding=bool(step.gateway))
        if not bridge.up:
            isolated.set_up(self._dumps, bridge.index)
        for port in lost_ports(step, self._links) if missing else ():
            isolated.attach(self._dumps, port.index, bridge.index)
        self._refresh()

    def _take_over(self, step: EnsureIsolatedBridge, link: Link) -> None:
        if link.index == step.known:
            isolated.mark(self._dumps, link.index, step.owner)
        else:
            isolated.adopt(self._dumps, link, step.owner)

    def _remove_isolated(self, step: RemoveIsolatedBridge) -> None:
        self._refresh()
        guard(step, self._links)  # once more: nothing may have joined it since the look that the step is from
        if step.name in self._links:
            isolated.delete(self._dumps, self._links[step.name].index)
            self._refresh()

    def _make(self, name: str, **attributes: Any) -> None:
        if UNFINISHED in self._links:
            self._route.link("del", index=self._links[UNFINISHED].index)
        self._route.link("add", ifname=UNFINISHED, **attributes)
        self._refresh()
        with tolerating(errno.EAFNOSUPPORT):  # a kernel with ipv6.disable=1 gives no such addresses anyway
            self._set(UNFINISHED, IFLA_AF_SPEC=NO_ADDRESSES)
        self._set(UNFINISHED, ifname=name, ifalias=MARK)
        self._refresh()

    def _set_master(self, name: str, master: str) -> None:
        link = self._links[name]
        if link.master != master:
            if master and self._links[master].kind == "bond" and link.up:
                self._set(name, state="down")
            self._set(name, master=self._links[master].index if master else 0)
            self._refresh()
        if master and not self._links[name].up:
            self._set(name, state="up")
            self._refresh()

    def _adjust(
        self, name: str, *, mtu: int = 0, up: bool = False, tx_queue_length: int | None = None, mac: str = ""
    ) -> None:
        link = self._links[name]
        if mac and link.mac != mac:
            self._set(name, address=mac)
        if tx_queue_length is not None and link.tx_queue_length != tx_queue_length:
            self._set(name, txqlen=tx_queue_length)
        if mtu and link.mtu != mtu:
            self._set(name, mtu=mtu)
        if up and not link.up:
            self._set(name, state="up")
        self._refresh()

    def _delete(self, name: str) -> None:
        if name in self._links:
            isolated.delete(self._dumps, self._links[name].index)
            self._refresh()

    def _set(self, name: str, **attributes: Any) -> None:
        self._route.link("set", index=self._links[name].index, **attributes)

    def _refresh(self) -> None:
        self._links = read_links(self._dumps)


@contextmanager
def _explained(step: LinkStep) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(step, error) from error
