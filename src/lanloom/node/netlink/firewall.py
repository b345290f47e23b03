"""What the packet filters of IP on this machine drop unless a rule accepts it, for a check. Nothing is changed.

Tables of nf_tables are read, among them those of `iptables-nft`, and the tables of `iptables-legacy` that are there.
The numbers are those of linux/netfilter/nf_tables.h.
"""

import errno
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from lanloom.node.errors import LinkError
from lanloom.node.netlink.iptables import dropping, is_own_bridge, read_table
from lanloom.node.netlink.messages import attributes, dump, text, walk
from lanloom.node.netlink.packetfilter import NFNL_SUBSYS_NFTABLES, open_filter_socket

Hook = Literal["input", "forward"]

NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY = 1, 3, 4, 5
NFTA_HOOK_HOOKNUM = 1
NFTA_RULE_TABLE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS = 1, 2, 4
NFTA_EXPR_NAME, NFTA_EXPR_DATA = 1, 2
NFTA_CMP_OP, NFTA_CMP_DATA = 2, 3
NFTA_DATA_VALUE = 1
NFTA_IMMEDIATE_DATA = 2
NFTA_DATA_VERDICT, NFTA_VERDICT_CODE = 2, 1
NFTA_MATCH_NAME = NFTA_TARGET_NAME = 1

_HEADER = struct.Struct("!BBH")
_GETCHAIN, _GETRULE = 4, 7
_ANY_FAMILY = _HEADER.pack(0, 0, 0)
_HOOKS: Mapping[int, Hook] = {1: "input", 2: "forward"}
_VERSIONS = {1: (4, 6), 2: (4,), 10: (6,)}
_FAMILIES = {1: "inet", 2: "ip", 10: "ip6"}
_EQUAL = b"\0\0\0\0"
_DROP, _ACCEPT = b"\0\0\0\0", b"\0\0\0\1"
"""Verdicts and policies of chains, as the kernel's numbers in network byte order."""


class FilterChain(NamedTuple):
    """A chain that drops what no rule of it accepts. `title` is as `nft list chain` takes it, or begins with a program.

    One that `accepts_bridged` has a rule about ports of bridges, or about packets that leave by the link that they
    came in by.
    """

    hook: Hook
    versions: frozenset[int]
    title: str
    accepts_bridged: bool = False


class IpFilters(NamedTuple):
    """What is known of the filters. `bridged` are the IP versions in which frames between ports of a bridge pass them.

    `unread` are the versions for which `iptables-legacy` has a table that can't be read.
    """

    chains: tuple[FilterChain, ...] = ()
    bridged: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()


def read_filters() -> IpFilters:
    """Return the filters of this thread's network namespace. Raises LinkError where they may not be read."""
    try:
        with open_filter_socket() as sock:
            chains = dropping_chains(
                dump(sock, NFNL_SUBSYS_NFTABLES << 8 | _GETCHAIN, _ANY_FAMILY),
                dump(sock, NFNL_SUBSYS_NFTABLES << 8 | _GETRULE, _ANY_FAMILY),
            )
    except (OSError, LinkError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.EPERM, errno.EACCES):
            raise LinkError("packet filters can't be read: Operation not permitted") from error
        chains = ()  # the kernel has no nf_tables
    legacy, unread = _legacy_chains(_versions(_NAMES, "filter"))
    bridged = _versions("sys/net/bridge/bridge-nf-call-ip{}tables", "1")
    return IpFilters((*chains, *legacy), bridged, unread)


_NAMES = "thread-self/net/ip{}_tables_names"


def _legacy_chains(versions: frozenset[int]) -> tuple[list[FilterChain], frozenset[int]]:
    """Return the chains of tables that are there, and the versions whose table can't be read."""
    chains, unread = [], set()
    for version in sorted(versions):
        try:
            found = dropping(version, read_table(version))
        except OSError:
            unread.add(version)
            continue
        program = "iptables-legacy" if version == 4 else "ip6tables-legacy"
        for each in found:
            title = f"{program} {_HOOKS[each.hook].upper()}"
            chains.append(FilterChain(_HOOKS[each.hook], frozenset({version}), title, each.accepts_bridged))
    return chains, frozenset(unread)


def _versions(path: str, word: str) -> frozenset[int]:
    """Return the IP versions for which a file of the kernel has a word."""
    found = set()
    for version, infix in ((4, ""), (6, "6")):
        with suppress(OSError):
            if word in Path("/proc", path.format(infix)).read_text().split():
                found.add(version)
    return frozenset(found)


_Key = tuple[int, bytes, bytes]


def dropping_chains(chains: list[bytes], rules: list[bytes]) -> tuple[FilterChain, ...]:
    """Return the chains that drop by default, from the bodies of messages about all chains and rules."""
    last: dict[_Key, bytes] = {}
    bridged: set[_Key] = set()
    for body in rules:
        values = attributes(body, _HEADER.size)
        key = (body[0], values.get(NFTA_RULE_TABLE, b""), values.get(NFTA_RULE_CHAIN, b""))
        last[key] = values.get(NFTA_RULE_EXPRESSIONS, b"")
        if _is_about_bridges(last[key]):
            bridged.add(key)
    found = []
    for body in chains:
        values, family = attributes(body, _HEADER.size), body[0]
        place = attributes(values.get(NFTA_CHAIN_HOOK, b""))
        hook = _HOOKS.get(int.from_bytes(place.get(NFTA_HOOK_HOOKNUM, b""), "big"))
        key = (family, values.get(NFTA_CHAIN_TABLE, b""), values.get(NFTA_CHAIN_NAME, b""))
        if NFTA_CHAIN_HOOK not in values or hook is None or family not in _VERSIONS:
            continue
        if values.get(NFTA_CHAIN_POLICY, _ACCEPT) != _DROP and not _drops_all(last.get(key, b"")):
            continue
        title = f"{_FAMILIES[family]} {text(key[1])} {text(key[2])}"
        found.append(FilterChain(hook, frozenset(_VERSIONS[family]), title, key in bridged))
    return tuple(sorted(found, key=lambda each: each.title))


def _is_about_bridges(expressions: bytes) -> bool:
    compared = []
    for _, each in walk(expressions):
        name, data = _expression(each)
        if name == "match" and text(data.get(NFTA_MATCH_NAME)) == "physdev":
            return True
        if name == "cmp" and data.get(NFTA_CMP_OP, _EQUAL) == _EQUAL:
            compared.append(data.get(NFTA_CMP_DATA, b""))
    twice = {each for each in compared if compared.count(each) > 1}
    return any(is_own_bridge(text(attributes(each).get(NFTA_DATA_VALUE))) for each in twice)


def _drops_all(expressions: bytes) -> bool:
    """Return whether a rule, which compares nothing, drops or rejects each packet."""
    drops = False
    for _, each in walk(expressions):
        name, data = _expression(each)
        if name == "immediate":
            loaded = attributes(data.get(NFTA_IMMEDIATE_DATA, b""))
            drops |= attributes(loaded.get(NFTA_DATA_VERDICT, b"")).get(NFTA_VERDICT_CODE) == _DROP
        elif name == "reject" or (name == "target" and text(data.get(NFTA_TARGET_NAME)) == "REJECT"):
            drops = True
        elif name not in ("counter", "log"):
            return False
    return drops


def _expression(body: bytes) -> tuple[str, dict[int, bytes]]:
    """Return the name of an expression, and its data by their numbers."""
    parts = attributes(body)
    return text(parts.get(NFTA_EXPR_NAME)), attributes(parts.get(NFTA_EXPR_DATA, b""))
