"""Changes of a LAN's part of the kernel as values: a plan is a tuple of these, in order. What all of them share.

Each is idempotent or fails without an effect. A step has its words and its guard in `lansteps` and `portsteps`; its
adapter of the kernel is registered in the module of `agent.links` with the same name, that of the fake in
`tests.fakes.lansteps`. Every step belongs to the LAN whose namespace has the name `ns`. A guard is asked with the
links in that namespace.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import ClassVar

from lanloom.node.errors import LinkError, LinkMissing
from lanloom.node.links import KernelLink
from lanloom.node.marks import register_family
from lanloom.node.ports import KernelStep

FAMILY = register_family("lanloom-lan", "LAN")
"""What the ifalias of a LAN's bridge begins with: the mark of the whole namespace."""

FORWARD_ALL = 0xFFFD
"""A port's mask of reserved addresses 01:80:c2:00:00:0X whose frames pass: all but those of pause frames, which the
kernel never forwards. LACP, STP and LLDP are a matter of those on the LAN."""


def alias_of(uid: str) -> str:
    """Return the ifalias of the bridge of this LAN."""
    return f"{FAMILY} {uid}"


class LanStep(KernelStep, frozen=True, kw_only=True):
    """A change in the LAN's namespace `ns`."""

    rights: ClassVar[str] = "the rights NET_ADMIN and SYS_ADMIN"

    ns: str

    def concerns(self) -> str:
        """Return the port of a pod that alone suffers if the step fails; empty for one that all others build on."""
        return ""

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Refuse what can't or must not be done in the namespace with these links. Raises LinkError and its kinds."""


class PortFailures:
    """Failures of single ports while steps are applied: the rest of a port's steps are left out, all others are not.

    A pod that can't have its interface keeps no other pod from the LAN.
    """

    def __init__(self) -> None:
        self._found: dict[str, LinkError] = {}

    def has(self, step: LanStep) -> bool:
        """Return whether a step is about a port of which one has failed."""
        return step.concerns() in self._found

    def add(self, step: LanStep, error: LinkError) -> None:
        """Note the failure of a step about one port; raise that of any other."""
        if not step.concerns():
            raise error
        self._found[step.concerns()] = error

    def check(self, ports: Collection[str] | None) -> None:
        """Raise the first failure of these ports, or, with None, of all."""
        for port, error in self._found.items():
            if ports is None or port in ports:
                raise error


def check_link(title: str, links: Mapping[str, KernelLink], name: str) -> None:
    """Raise LinkMissing for a link that is needed and not there."""
    if name not in links:
        raise LinkMissing(f"{title}: there is no link {name}")


def check_address(title: str, text: str) -> None:
    """Raise LinkError for a text that is no IP address."""
    try:
        ip_address(text)
    except ValueError:
        raise LinkError(f"{title}: {text!r} is no IP address") from None
