"""The table `filter` of iptables-legacy and ip6tables-legacy: which chains drop what no rule accepts.

These programs do not use nf_tables but socket options of their own, of linux/netfilter_ipv4/ip_tables.h and its
counterpart of IPv6. Read only a table that is there: the kernel would make another one.
"""

import ctypes
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lanloom.node.netlink.messages import text
from lanloom.node.netlink.packetfilter import NAME_SIZE

LOCAL_IN, FORWARD = 1, 2
"""Hooks of IP."""

_GET_INFO, _GET_ENTRIES = 64, 65
_INFO = struct.Struct("=32sI5I5III")
_ENTRIES_HEAD = 40
_RECORD = struct.Struct("=H29sB")
"""The head of a match and of a target: its size, name and revision."""

_SIZES, _VERDICT = struct.Struct("=HH"), struct.Struct("=i")
_DROP = -1
_OTHER_LINKS = 3
"""The flags by which a rule is about other links than those that it names."""

_DOCKERS = re.compile(r"docker\d+|br-[0-9a-f]{12}")
_libc = ctypes.CDLL(None, use_errno=True)


class _Layout(NamedTuple):
    """Where the parts of an entry of an IP version are; the conditions, with names of links and flags, are first."""

    family: socket.AddressFamily
    level: int
    links: int
    inverted: int
    conditions: int
    sizes: int
    matches: int


_LAYOUTS: Mapping[int, _Layout] = {
    4: _Layout(socket.AF_INET, socket.SOL_IP, 16, 83, 84, 88, 112),
    6: _Layout(socket.AF_INET6, 41, 64, 132, 136, 140, 168),
}


class IpTable(NamedTuple):
    """The table of an IP version: by hook the places of a chain's first entry and of its policy, and all entries."""

    begins: tuple[int, ...]
    policies: tuple[int, ...]
    entries: bytes


class IpChain(NamedTuple):
    """A chain that drops by default. One that `accepts_bridged` has a rule about ports of bridges."""

    hook: int
    accepts_bridged: bool


def read_table(version: int) -> IpTable:
    """Return the table `filter` of an IP version in this thread's network namespace. Raises OSError."""
    layout = _LAYOUTS[version]
    with socket.socket(layout.family, socket.SOCK_DGRAM) as sock:
        name = b"filter"
        info = _INFO.unpack(_option(sock, layout.level, _GET_INFO, _INFO.pack(name, *[0] * 13)))
        size = info[13]
        order = struct.pack("=32sI", name, size).ljust(_ENTRIES_HEAD + size, b"\0")
        entries = _option(sock, layout.level, _GET_ENTRIES, order)[_ENTRIES_HEAD:]
    return IpTable(info[2:7], info[7:12], entries)


def _option(sock: socket.socket, level: int, name: int, value: bytes) -> bytes:
    """Return an option for which the kernel reads a value first, as `socket.getsockopt` has it not read."""
    buffer, size = ctypes.create_string_buffer(value, len(value)), ctypes.c_uint32(len(value))
    if _libc.getsockopt(sock.fileno(), level, name, buffer, ctypes.byref(size)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer.raw


def dropping(version: int, table: IpTable) -> tuple[IpChain, ...]:
    """Return the chains of a table that drop by their policy, or by a last rule without a condition."""
    found = []
    for hook in (LOCAL_IN, FORWARD):
        *rules, policy = _entries(version, table, table.begins[hook], table.policies[hook])
        if _drops(version, policy) or (rules and _drops(version, rules[-1])):
            found.append(IpChain(hook, any(_is_about_bridges(version, each) for each in rules)))
    return tuple(found)


def _entries(version: int, table: IpTable, at: int, last: int) -> Iterator[bytes]:
    """Yield the entries of a chain, its policy as the last one."""
    while at <= last:
        _, size = _SIZES.unpack_from(table.entries, at + _LAYOUTS[version].sizes)
        yield table.entries[at : at + size]
        at += size


def _drops(version: int, entry: bytes) -> bool:
    """Return whether an entry without a condition drops or rejects."""
    layout = _LAYOUTS[version]
    at, _ = _SIZES.unpack_from(entry, layout.sizes)
    if any(entry[: layout.conditions]) or at != layout.matches:
        return False
    _, name, _ = _RECORD.unpack_from(entry, at)
    verdict: int = _VERDICT.unpack_from(entry, at + _RECORD.size)[0]
    return _word(name) == "REJECT" or (not _word(name) and verdict == _DROP)


def _is_about_bridges(version: int, entry: bytes) -> bool:
    """Return whether a rule is about ports of bridges, or packets that leave by the link they came in by."""
    layout = _LAYOUTS[version]
    came, leaves = (_word(entry[at : at + NAME_SIZE]) for at in (layout.links, layout.links + NAME_SIZE))
    at, (end, _) = layout.matches, _SIZES.unpack_from(entry, layout.sizes)
    while at < end:
        size, name, _ = _RECORD.unpack_from(entry, at)
        if _word(name) == "physdev":
            return True
        at += size
    return came == leaves and is_own_bridge(came) and not entry[layout.inverted] & _OTHER_LINKS


def _word(field: bytes) -> str:
    """Return a name; behind its NUL may be anything."""
    return text(field.partition(b"\0")[0])


def is_own_bridge(name: str) -> bool:
    """Return whether a rule for packets within this link can be for a network of Lanloom: Docker has its own."""
    return bool(name) and not _DOCKERS.fullmatch(name)
