"""Expressions of packet filters' rules in the family bridge: what frames they match, and what they do to them.

The numbers are those of linux/netfilter/nf_tables.h. A rule is some of them one after the other: what follows one that
does not match is not done.
"""

import struct

from lanloom.node.netlink.messages import attribute, nested

_META_MARK, _META_IIFNAME, _META_OIFNAME, _META_IIFGROUP, _META_OIFGROUP = 3, 6, 7, 21, 22
_VERDICT_REGISTER, _DROP = 0, 0
_EQUAL, _OTHER = 0, 1
_DYNSET_ADD, _DYNSET_UPDATE = 0, 1
_OVER = 1

ACCEPT = 1
"""The verdict that lets a frame pass."""

REGISTER = 1
"""The register that expressions load into, and compare."""

_WORD, _LONG, _NATIVE = struct.Struct("!I"), struct.Struct("!Q"), struct.Struct("=I")


def from_link(name: str) -> bytes:
    """Match frames that came in by the link."""
    return _meta(_META_IIFNAME) + _compare(_EQUAL, name.encode().ljust(16, b"\0"))


def not_from_link(name: str) -> bytes:
    """Match frames that came in by any other link."""
    return _meta(_META_IIFNAME) + _compare(_OTHER, name.encode().ljust(16, b"\0"))


def to_link(name: str) -> bytes:
    """Match frames that are about to leave by the link."""
    return _meta(_META_OIFNAME) + _compare(_EQUAL, name.encode().ljust(16, b"\0"))


def from_group(group: int) -> bytes:
    """Match frames that came in by a link of the group."""
    return _meta(_META_IIFGROUP) + _compare(_EQUAL, _NATIVE.pack(group))


def to_group(group: int) -> bytes:
    """Match frames that are about to leave by a link of the group."""
    return _meta(_META_OIFGROUP) + _compare(_EQUAL, _NATIVE.pack(group))


def marked(mark: int) -> bytes:
    """Match frames with the mark."""
    return _meta(_META_MARK) + _compare(_EQUAL, _NATIVE.pack(mark))


def mark(value: int) -> bytes:
    """Give the frame a mark, 0 for none."""
    load = expression("immediate", number_of(1, REGISTER) + nested(2, attribute(1, _NATIVE.pack(value))))
    return load + expression("meta", number_of(2, _META_MARK) + number_of(3, REGISTER))


def remember_source(name: str) -> bytes:
    """Add the source address to a set, or refresh it there; no match if the set is full."""
    update = attribute(1, name.encode() + b"\0") + number_of(3, _DYNSET_UPDATE) + number_of(4, REGISTER)
    return _SOURCE + expression("dynset", update)


def from_source(mac: str) -> bytes:
    """Match frames from this address."""
    return _SOURCE + _compare(_EQUAL, bytes.fromhex(mac.replace(":", "")))


def from_another(mac: str) -> bytes:
    """Match frames whose source is not this address."""
    return _SOURCE + _compare(_OTHER, bytes.fromhex(mac.replace(":", "")))


def drop() -> bytes:
    """Count the frame and drop it."""
    return expression("counter", b"") + verdict(_DROP)


def accept() -> bytes:
    """Let the frame pass to the next chain."""
    return verdict(ACCEPT)


def to_known(name: str) -> bytes:
    """Match frames whose destination is in a set of addresses."""
    return _DESTINATION + expression("lookup", attribute(1, name.encode() + b"\0") + number_of(2, REGISTER))


def faster_than(name: str, rate: int) -> bytes:
    """Match frames beyond so many in a second of the link that they came in by; a set of links keeps the count.

    As many may come at once.
    """
    limit = attribute(1, _LONG.pack(rate)) + attribute(2, _LONG.pack(1))
    limit += number_of(3, rate) + number_of(4, 0) + number_of(5, _OVER)
    return _for_each_link(name, "limit", limit)


def count_by_link(name: str) -> bytes:
    """Count the frame in a set of links, at the one that it came in by."""
    return _for_each_link(name, "counter", b"")


def _for_each_link(name: str, kind: str, data: bytes) -> bytes:
    own = nested(7, attribute(1, kind.encode() + b"\0") + nested(2, data))
    update = attribute(1, name.encode() + b"\0") + number_of(3, _DYNSET_ADD) + number_of(4, REGISTER)
    return _meta(_META_IIFNAME) + expression("dynset", update + own)


def expression(name: str, data: bytes) -> bytes:
    """Return an expression as an element of a list of them."""
    return nested(1, attribute(1, name.encode() + b"\0") + nested(2, data))


def verdict(code: int) -> bytes:
    """Return the end of a rule."""
    return expression("immediate", number_of(1, _VERDICT_REGISTER) + nested(2, nested(2, number_of(1, code))))


def number_of(kind: int, value: int) -> bytes:
    """Return an attribute with a number in the network's order."""
    return attribute(kind, _WORD.pack(value))


def _meta(key: int) -> bytes:
    return expression("meta", number_of(1, REGISTER) + number_of(2, key))


def _compare(operator: int, value: bytes) -> bytes:
    return expression("cmp", number_of(1, REGISTER) + number_of(2, operator) + nested(3, attribute(1, value)))


def _address(offset: int) -> bytes:
    """Load 6 bytes of the link layer's header."""
    return expression(
        "payload", number_of(1, REGISTER) + number_of(2, 0) + number_of(3, offset) + number_of(4, 6)
    )


_DESTINATION, _SOURCE = _address(0), _address(6)
