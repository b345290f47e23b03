"""Packet filters of a namespace's bridges: tables of nf_tables of the family bridge, as netlink messages.

The numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h. A table is replaced as a whole, in one
transaction: a frame meets the old one or the new one. A table has a mark of its maker, who knows by it what is in the
table. The sockets are of NETLINK_NETFILTER, each in the namespace of its tables.
"""

import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from lanloom.node.netlink.expressions import ACCEPT, REGISTER, accept, drop, expression, number_of
from lanloom.node.netlink.messages import (
    NETLINK_CAP_ACK,
    NETLINK_EXT_ACK,
    NLM_F_ACK_REQUEST,
    NLM_F_APPEND,
    NLM_F_CREATE,
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
NAME_SIZE = 16
"""Bytes of a link's name."""

NFNL_BATCH_BEGIN, NFNL_BATCH_END, NFNL_SUBSYS_NFTABLES = 0x10, 0x11, 10
_NEWTABLE, _GETTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 1, 2, 3, 6, 7
_NEWSET, _NEWSETELEM, _GETSETELEM, _DELSETELEM = 9, 12, 13, 14
NLM_F_REQUEST = 1

PRE_ROUTING, FORWARD = 0, 2
"""Hooks of the family bridge: frames as they come in, and as they are about to leave by a port."""

_SET_TIMEOUT, _SET_DYNAMIC = 0x10, 0x20
_ETHERNET_TYPE, _LINK_TYPE = 9, 41
"""What nft shows elements of a set as: Ethernet addresses, names of links. The kernel asks for the length only."""

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


class LinkSet(Struct, frozen=True):
    """A set of names of links that rules add to, each with a state of its own: at most `size`."""

    name: str
    size: int


def open_filter_socket() -> socket.socket:
    """Return a socket for tables of the namespace of this thread. Raises OSError."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    opened.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    opened.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    return opened


def replace_table(
    sock: socket.socket, name: str, maker: str, sets: Iterable[AddressSet | LinkSet], chains: Sequence[Chain]
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

    The kernel keeps the time, so they are closed in time although no process does it.
    """
    table = attribute(1, name.encode() + b"\0")
    inside = table + attribute(2, b"forward\0")
    key = expression("immediate", number_of(1, REGISTER) + nested(2, attribute(1, _OPEN_KEY)))
    is_open = expression("lookup", attribute(1, _OPEN) + number_of(2, REGISTER))
    known = table + attribute(2, _OPEN) + number_of(3, _SET_TIMEOUT) + number_of(4, _MARK_TYPE)
    flags = NLM_F_CREATE | NLM_F_APPEND
    _transact(
        sock,
        [
            _message(_NEWTABLE, table, NLM_F_CREATE),
            _message(_NEWSET, known + number_of(5, len(_OPEN_KEY)) + number_of(10, 1), NLM_F_CREATE),
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


def named_links(sock: socket.socket, table: str, chain: str) -> frozenset[str]:
    """Return the links that rules of a chain compare with, whatever program made them. Raises LinkError."""
    found = set[str]()
    for rule in _dumped(sock, _GETRULE):
        if (text(rule.get(1)), text(rule.get(2))) == (table, chain):
            found.update(_compared(rule.get(4, b"")))
    return frozenset(found)


def counted(sock: socket.socket) -> dict[str, int]:
    """Return how many frames the rules with a title dropped, by title, since they were made. Raises LinkError."""
    found: Counter[str] = Counter()
    for rule in _dumped(sock, _GETRULE):
        if title := _title(rule.get(_USERDATA, b"")):
            found[title] += _packets(rule.get(4, b""))
    return dict(found)


def counted_by_link(sock: socket.socket, table: str, name: str) -> dict[str, int]:
    """Return how many frames were counted in a set of links, by the link's name. Raises LinkError."""
    place = attribute(1, table.encode() + b"\0") + attribute(2, name.encode() + b"\0")
    found = {}
    for part in _dumped(sock, _GETSETELEM, place):
        for _, element in walk(part.get(3, b"")):
            values = attributes(element)
            link = text(attributes(values.get(1, b"")).get(1))
            found[link] = _packets(nested(7, values[7]) if 7 in values else values.get(11, b""))
    return found


def _dumped(sock: socket.socket, what: int, of: bytes = b"") -> list[dict[int, bytes]]:
    """Return the attributes of all objects of this kind in tables of the family bridge."""
    bodies = dump(sock, NFNL_SUBSYS_NFTABLES << 8 | what, _HEADER.pack(NFPROTO_BRIDGE, 0, 0) + of)
    return [attributes(body, _HEADER.size) for body in bodies]


_USERDATA, _COMMENT = 7, 0
"""Attribute of a rule for what the kernel does not read, and nft's type of a comment in it."""


def _comment(title: str) -> bytes:
    data = title.encode() + b"\0"
    return attribute(_USERDATA, bytes([_COMMENT, len(data)]) + data) if title else b""


def _title(data: bytes) -> str:
    return text(data[2 : 2 + data[1]]) if len(data) > 2 and data[0] == _COMMENT else ""


def _packets(expressions: bytes) -> int:
    """Return what the counter of a rule has counted."""
    for _, each in walk(expressions):
        found = attributes(each)
        if text(found.get(1)) == "counter":
            return int.from_bytes(attributes(found.get(2, b"")).get(2, b""), "big")
    return 0


def _compared(expressions: bytes) -> Iterator[str]:
    """Yield the names with which a rule compares."""
    for _, each in walk(expressions):
        found = attributes(each)
        if text(found.get(1)) == "cmp":
            value = attributes(attributes(found.get(2, b"")).get(3, b"")).get(1, b"")
            if len(value) == NAME_SIZE:
                yield text(value)


def _chain(chain: Chain, table: bytes) -> bytes:
    hook = number_of(1, chain.hook) + attribute(2, _SIGNED.pack(chain.priority))
    return (
        table
        + attribute(3, chain.name.encode() + b"\0")
        + nested(4, hook)
        + number_of(5, ACCEPT)
        + attribute(7, b"filter\0")
    )


def _set(number: int, wanted: AddressSet | LinkSet, table: bytes) -> _Message:
    timed = isinstance(wanted, AddressSet)
    kind, length = (_ETHERNET_TYPE, 6) if timed else (_LINK_TYPE, NAME_SIZE)
    body = table + attribute(2, wanted.name.encode() + b"\0")
    body += (
        number_of(3, _SET_DYNAMIC | (_SET_TIMEOUT if timed else 0))
        + number_of(4, kind)
        + number_of(5, length)
    )
    body += nested(9, number_of(1, wanted.size)) + number_of(10, number)
    if isinstance(wanted, AddressSet):
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
