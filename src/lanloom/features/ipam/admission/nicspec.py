"""What a NIC may say by itself, whatever the cluster is like.

The webhook refuses with it, and the allocator reports it of a NIC that was stored while no webhook answered.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lanloom.api.ipam import INSTANCE, NODE, POD, STICKY_FOR, VIRTUAL_MACHINE, Nic
from lanloom.features.ipam.rules.addresses import parse_address
from lanloom.features.ipam.rules.general import check_mode, check_vlan
from lanloom.features.ipam.rules.names import NAME_MAX, is_uuid
from lanloom.features.ipam.rules.requests import MOST, parse_mac, parse_requests
from lanloom.features.ipam.rules.shares import parse_period
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote

KINDS = (INSTANCE, VIRTUAL_MACHINE, POD, NODE)

_OWNER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_NETWORK = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_WORD = re.compile(r"[!-~]{1,253}")


def nic_fault(nic: Nic) -> str:
    """Return why the webhook would refuse a NIC by itself, beginning with the field; empty if it would not."""
    try:
        check_nic(nic)
        check_sticky_for(nic)
    except Malformed as error:
        return str(error)
    return ""


def check_sticky_for(nic: Nic) -> None:
    """Raise Malformed for a period of an unused name that can't be read."""
    if (text := nic.metadata.annotations.get(STICKY_FOR)) is not None:
        parse_period(f"annotation {STICKY_FOR}", text)


def check_nic(nic: Nic) -> None:
    """Validate a NIC by itself. Raises Malformed, which begins with the field."""
    spec = nic.spec
    _check_owner(nic)
    for name, text, check in (
        ("mac", spec.mac, parse_mac),
        ("mode", spec.mode, check_mode),
        ("vlan", spec.vlan, check_vlan),
    ):
        with in_field(name):
            if text:
                check(text)
    if spec.uuid and not is_uuid(spec.uuid):
        raise Malformed(f"spec.uuid: {quote(spec.uuid)} is not a UUID; omit it to use the object's uid")
    for field, text in (("link", spec.link), ("interface", spec.interface), ("name", spec.name)):
        if text and not _WORD.fullmatch(text):
            raise Malformed(
                f"spec.{field}: {quote(text)} is not a name; use up to 253 characters without blanks"
            )
    _check_requests(nic)


def _check_owner(nic: Nic) -> None:
    owner = nic.spec.owner
    if owner.kind not in KINDS:
        raise Malformed(
            f"spec.owner.kind: {quote(owner.kind)} is not a kind of owner; choose one of {', '.join(KINDS)}"
        )
    if len(owner.name) > NAME_MAX or not _OWNER.fullmatch(owner.name):
        raise Malformed(
            f"spec.owner.name: {quote(owner.name)} is not a name; use letters, digits, dots, dashes and underscores"
        )
    if owner.uid and not _WORD.fullmatch(owner.uid):
        raise Malformed(f"spec.owner.uid: {quote(owner.uid)} is not a uid; use the uid of the owner")


def _check_requests(nic: Nic) -> None:
    spec = nic.spec
    if spec.network and (len(spec.network) > NAME_MAX or not _NETWORK.fullmatch(spec.network)):
        raise Malformed(
            f"spec.network: {quote(spec.network)} is not the name of a Network; use metadata.name of the Network"
        )
    if spec.ips and not spec.network:
        raise Malformed("spec.ips: addresses belong to a network; name it in spec.network")
    if len(spec.ips) > MOST:
        raise Malformed(f"spec.ips has {len(spec.ips)} entries; a NIC has {MOST} addresses at most")
    with in_field("ips"):
        parse_requests(spec.ips)
    with in_field("release"):
        for text in spec.release:
            parse_address(text)


@contextmanager
def in_field(name: str) -> Iterator[None]:
    """Put a field of the spec before the message."""
    with prefixed(f"spec.{name}: "):
        yield


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Put some text before the message of a refusal."""
    try:
        yield
    except (Malformed, Denied) as error:
        raise type(error)(f"{prefix}{error}") from None
