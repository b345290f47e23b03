"""Packet filters of a namespace's bridges: tables of nf_tables of the family bridge, as netlink messages.

The numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h. A table is replaced as a whole, in one
transaction: a frame meets the old one or the new one. A table has a mark of its maker, who knows by it what is in the
table. The sockets are of NETLINK_NETFILTER, each in the namespace of its tables.
"""

import socket
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from lanloom.node.netlink.messages import (
    NETLINK_CAP_ACK,
    NETLINK_EXT_ACK,
    NLM_F_ACK_REQUEST,
    SOL_NETLINK,
    acknowledged,
    attribute,
    attributes,
    dump,
    nested,
    packed,
    text,
    walk,
)

NETLINK_NETFILTER = 12
NFPROTO_BRIDGE = 7
NFNL_BATCH_BEGIN, NFNL_BATCH_END, NFNL_SUBSYS_NFTABLES = 0x10, 0x11, 10
_NEWTABLE, _GETTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 1, 2, 3, 6, 7
_NEWSET, _NEWSETELEM, _DELSETELEM = 9, 12, 14
NLM_F_CREATE, NLM_F_APPEND = 0x400, 0x800
NLM_F_REQUEST = 1

PRE_ROUTING, FORWARD = 0, 2
"""Hooks of the family bridge: frames as they come in, and as they are about to leave by a port."""

_META_MARK, _META_IIFNAME, _META_OIFNAME, _META_IIFGROUP, _META_OIFGROUP = 3, 6, 7, 21, 22
_REGISTER = 1
_VERDICT_REGISTER, _DROP, _ACCEPT = 0, 0, 1
_EQUAL, _OTHER = 0, 1
_SET_TIMEOUT, _SET_DYNAMIC = 0x10, 0x20
_DYNSET_UPDATE = 1
_ETHERNET_TYPE = 9
"""What nft shows elements of a set as: Ethernet addresses. The kernel itself asks for the length only."""

_HEADER = struct.Struct("!BBH")
_WORD, _SIGNED = struct.Struct("!I"), struct.Struct("!i")
_LONG = struct.Struct("!Q")
_NATIVE = struct.Struct("=I")


DAMAGED = "damaged"
"""The mark of a table that lacks rules."""


class Rule(NamedTuple):
    """The expressions of a rule, and its title, which nft shows as a comment; empty for none."""

    expressions: bytes
    title: str = ""


class Chain(Struct, frozen=True):
    """Rules at a hook, in order. Frames that no rule drops pass.

    Of the chains at one hook that with the least `priority` comes first.
    """

    name: str
    hook: int
    priority: int
    rules: tuple[Rule, ...]


_Message = tuple[int, int, bytes]
"""Type, flags and body."""


class AddressSet(Struct, frozen=True):
    """A set of Ethernet addresses that rules add to: at most `size`, each forgotten `seconds` after its last frame."""

    name: str
    size: int
    seconds: int


def open_filter_socket() -> socket.socket:
    """Return a socket for tables of the namespace of this thread. Raises OSError."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    opened.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    opened.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    return opened


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
    load = _expression("immediate", _number(1, _REGISTER) + nested(2, attribute(1, _NATIVE.pack(value))))
    return load + _expression("meta", _number(2, _META_MARK) + _number(3, _REGISTER))


def remember_source(name: str) -> bytes:
    """Add the source address to a set, or refresh it there; no match if the set is full."""
    update = attribute(1, name.encode() + b"\0") + _number(3, _DYNSET_UPDATE) + _number(4, _REGISTER)
    return _SOURCE + _expression("dynset", update)


def from_source(mac: str) -> bytes:
    """Match frames from this address."""
    return _SOURCE + _compare(_EQUAL, bytes.fromhex(mac.replace(":", "")))


def from_another(mac: str) -> bytes:
    """Match frames whose source is not this address."""
    return _SOURCE + _compare(_OTHER, bytes.fromhex(mac.replace(":", "")))


def drop() -> bytes:
    """Count the frame and drop it."""
    return _expression("counter", b"") + _verdict(_DROP)


def accept() -> bytes:
    """Let the frame pass to the next chain."""
    return _verdict(_ACCEPT)


def replace_table(
    sock: socket.socket, name: str, maker: str, sets: Iterable[AddressSet], chains: Sequence[Chain]
) -> None:
    """Make the table, in the stead of one that is there. Raises OSError."""
    table = attribute(1, name.encode() + b"\0")
    count = sum(len(chain.rules) for chain in chains)
    body: list[_Message] = [
        _message(_NEWTABLE, table, NLM_F_CREATE),
        _message(_DELTABLE, table),
        _message(_NEWTABLE, table + attribute(6, f"{maker}/{count}".encode()), NLM_F_CREATE),
        *(_set(number, each, table) for number, each in enumerate(sets, 1)),
    ]
    for chain in chains:
        body.append(_message(_NEWCHAIN, _chain(chain, table), NLM_F_CREATE))
        inside = table + attribute(2, chain.name.encode() + b"\0")
        flags = NLM_F_CREATE | NLM_F_APPEND
        body += [
            _message(_NEWRULE, inside + nested(4, rule.expressions) + _comment(rule.title), flags)
            for rule in chain.rules
        ]
    _transact(sock, body)


def close_bridges(sock: socket.socket, name: str) -> None:
    """Let the bridges of the namespace forward nothing but for the time that `open_bridges` gives. Raises OSError.

    The kernel keeps the time, so they are closed in time although nobody does anything about it.
    """
    table = attribute(1, name.encode() + b"\0")
    inside = table + attribute(2, b"forward\0")
    key = _expression("immediate", _number(1, _REGISTER) + nested(2, attribute(1, _OPEN_KEY)))
    is_open = _expression("lookup", attribute(1, _OPEN) + _number(2, _REGISTER))
    known = table + attribute(2, _OPEN) + _number(3, _SET_TIMEOUT) + _number(4, _MARK_TYPE)
    flags = NLM_F_CREATE | NLM_F_APPEND
    _transact(
        sock,
        [
            _message(_NEWTABLE, table, NLM_F_CREATE),
            _message(_NEWSET, known + _number(5, len(_OPEN_KEY)) + _number(10, 1), NLM_F_CREATE),
            _message(_NEWCHAIN, _chain(Chain("forward", FORWARD, 0, ()), table), NLM_F_CREATE),
            _message(_NEWRULE, inside + nested(4, key + is_open + accept()), flags),
            _message(_NEWRULE, inside + nested(4, drop()), flags),
        ],
    )


def open_bridges(sock: socket.socket, name: str, seconds: float) -> None:
    """Let the bridges that `close_bridges` closed forward from now on for so long. Raises OSError."""
    place = attribute(1, name.encode() + b"\0") + attribute(2, _OPEN)
    key = nested(1, attribute(1, _OPEN_KEY))
    timed = nested(1, key + attribute(4, _LONG.pack(max(1, int(seconds * 1000)))))
    # An element that is there keeps its time, and one that is not can't be deleted.
    added = _message(_NEWSETELEM, place + nested(3, timed), NLM_F_CREATE)
    deleted = _message(_DELSETELEM, place + nested(3, nested(1, key)))
    _transact(sock, [added, deleted, added])


def shut_bridges(sock: socket.socket, name: str) -> None:
    """Let the bridges that `open_bridges` opened forward nothing from now on. Raises OSError."""
    place = attribute(1, name.encode() + b"\0") + attribute(2, _OPEN)
    element = nested(3, nested(1, nested(1, attribute(1, _OPEN_KEY))))
    # An element that is not there can't be deleted.
    added = _message(_NEWSETELEM, place + element, NLM_F_CREATE)
    _transact(sock, [added, _message(_DELSETELEM, place + element)])


_OPEN, _OPEN_KEY, _MARK_TYPE = b"open\0", _NATIVE.pack(1), 19
"""The set whose one element lets frames pass, that element, and what nft shows it as."""


def remove_table(sock: socket.socket, name: str) -> None:
    """Remove the table; one that is not there is no error. Raises OSError."""
    table = attribute(1, name.encode() + b"\0")
    _transact(sock, [_message(_NEWTABLE, table, NLM_F_CREATE), _message(_DELTABLE, table)])


def owners(sock: socket.socket) -> dict[str, str]:
    """Return the mark of each table's maker by the table's name; `damaged` if rules are lost. Raises LinkError."""
    tables = _dumped(sock, _GETTABLE)
    rules = Counter(text(each.get(1)) for each in _dumped(sock, _GETRULE)) if tables else Counter[str]()
    found = {}
    for each in tables:
        name = text(each.get(1))
        maker, _, count = text(each.get(6)).rpartition("/")
        found[name] = maker if count == str(rules[name]) else DAMAGED
    return found


def counted(sock: socket.socket) -> dict[str, int]:
    """Return how many frames the rules with a title dropped, by title, since they were made. Raises LinkError."""
    found: Counter[str] = Counter()
    for rule in _dumped(sock, _GETRULE):
        if title := _title(rule.get(_USERDATA, b"")):
            found[title] += _packets(rule.get(4, b""))
    return dict(found)


def _dumped(sock: socket.socket, what: int) -> list[dict[int, bytes]]:
    """The attributes of all objects of this kind in tables of the family bridge."""
    bodies = dump(sock, NFNL_SUBSYS_NFTABLES << 8 | what, _HEADER.pack(NFPROTO_BRIDGE, 0, 0))
    return [attributes(body, _HEADER.size) for body in bodies]


_USERDATA, _COMMENT = 7, 0
"""Attribute of a rule for what the kernel does not read, and nft's type of a comment in it."""


def _comment(title: str) -> bytes:
    data = title.encode() + b"\0"
    return attribute(_USERDATA, bytes([_COMMENT, len(data)]) + data) if title else b""


def _title(data: bytes) -> str:
    return text(data[2 : 2 + data[1]]) if len(data) > 2 and data[0] == _COMMENT else ""


def _packets(expressions: bytes) -> int:
    """What the counter of a rule has counted."""
    for _, each in walk(expressions):
        found = attributes(each)
        if text(found.get(1)) == "counter":
            return int.from_bytes(attributes(found.get(2, b"")).get(2, b""), "big")
    return 0


def _chain(chain: Chain, table: bytes) -> bytes:
    hook = _number(1, chain.hook) + attribute(2, _SIGNED.pack(chain.priority))
    return (
        table
        + attribute(3, chain.name.encode() + b"\0")
        + nested(4, hook)
        + _number(5, _ACCEPT)
        + attribute(7, b"filter\0")
    )


def _set(number: int, wanted: AddressSet, table: bytes) -> _Message:
    body = table + attribute(2, wanted.name.encode() + b"\0")
    body += _number(3, _SET_TIMEOUT | _SET_DYNAMIC) + _number(4, _ETHERNET_TYPE) + _number(5, 6)
    body += nested(9, _number(1, wanted.size)) + _number(10, number)
    body += attribute(11, _LONG.pack(wanted.seconds * 1000))
    return _message(_NEWSET, body, NLM_F_CREATE)


def _transact(sock: socket.socket, messages: Sequence[_Message]) -> None:
    """Send the messages as one batch, and wait until it is done or refused."""
    batch = _HEADER.pack(0, 0, NFNL_SUBSYS_NFTABLES)
    data = packed(NFNL_BATCH_BEGIN, NLM_F_REQUEST, batch)
    for kind, flags, body in messages:
        data += packed(kind, NLM_F_ACK_REQUEST | flags, body)
    sock.send(data + packed(NFNL_BATCH_END, NLM_F_REQUEST, batch))
    acknowledged(sock, len(messages))


def _message(kind: int, body: bytes, flags: int = 0) -> _Message:
    return NFNL_SUBSYS_NFTABLES << 8 | kind, flags, _HEADER.pack(NFPROTO_BRIDGE, 0, 0) + body


def _expression(name: str, data: bytes) -> bytes:
    return nested(1, attribute(1, name.encode() + b"\0") + nested(2, data))


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER) + _number(2, key))


def _compare(operator: int, value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER) + _number(2, operator) + nested(3, attribute(1, value)))


def _verdict(code: int) -> bytes:
    return _expression("immediate", _number(1, _VERDICT_REGISTER) + nested(2, nested(2, _number(1, code))))


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, _WORD.pack(value))


_SOURCE = _expression("payload", _number(1, _REGISTER) + _number(2, 0) + _number(3, 6) + _number(4, 6))
"""Loads the source address: of the link layer's header the 6 bytes at 6."""
