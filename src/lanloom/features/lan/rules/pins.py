"""MAC addresses of secured spokes: where each of them is for good, on this node or at a peer.

A pinned address can't be learned elsewhere, so whoever sends from it gets none of the frames for it: the bridge keeps
the entry, and the VXLAN link drops frames from it that come from another peer than its own. Addresses at peers are
pinned only while some spoke of the LAN may send from any address.
"""

from collections.abc import Iterator, Mapping, Sequence

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.lansteps import DeleteLanLink, MakeBridge, MakeVtep
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.observed import Pin, SeenLan
from lanloom.features.lan.rules.optionsteps import PinMac, UnpinMac
from lanloom.features.lan.rules.portsteps import MakePair, MakeVeth


def wanted_pins(wanted: DesiredLan, seen: SeenLan) -> dict[str, Pin]:
    """Where addresses should be pinned; what is on this node comes before what a peer says."""
    pins = {mac: Pin(wanted.vxlan, peer) for mac, peer in wanted.pins.items()} if wanted.vtep else {}
    for port in wanted.ports:
        if port.name not in seen.absent and port.flags.locked and port.mac:
            pins[port.mac] = Pin(port.name)
    return pins


def pin_steps(wanted: DesiredLan, seen: SeenLan, before: Sequence[LanStep]) -> Iterator[LanStep]:
    """Yield the steps for addresses, after those `before`, with which the pins at a link go."""
    asked, there = wanted_pins(wanted, seen), _left(wanted, seen.pins, before)
    for mac, pin in sorted(there.items()):
        if asked.get(mac) != pin:
            yield UnpinMac(ns=wanted.ns, mac=mac, pin=pin)
    for mac, pin in sorted(asked.items()):
        if there.get(mac) != pin:
            yield PinMac(ns=wanted.ns, mac=mac, pin=pin)


def _left(wanted: DesiredLan, pins: Mapping[str, Pin], before: Sequence[LanStep]) -> dict[str, Pin]:
    """Return what is pinned once those steps are done.

    A pin at a peer has a part in the bridge and one in the VXLAN link.
    """
    lost = {step.name for step in before if isinstance(step, DeleteLanLink | MakeVtep)}
    lost |= {step.port for step in before if isinstance(step, MakePair | MakeVeth)}
    anew = any(isinstance(step, MakeBridge) for step in before)
    found = {
        mac: Pin(
            "" if anew or pin.port in lost else pin.port,
            "" if wanted.vxlan in lost else pin.peer,
        )
        for mac, pin in pins.items()
    }
    return {mac: pin for mac, pin in found.items() if pin != Pin("")}
