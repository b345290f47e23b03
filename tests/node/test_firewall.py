"""Which chains of nf_tables drop what no rule accepts, by the kernel's messages."""

import struct

import pytest

from lanloom.node.netlink.firewall import FilterChain, dropping_chains
from lanloom.node.netlink.messages import attribute, nested

INET, IPV4, IPV6, BRIDGE = 1, 2, 10, 7
INPUT, FORWARD, OUTPUT = 1, 2, 3
DROP, ACCEPT = 0, 1


def number(kind: int, value: int) -> bytes:
    """An attribute with a number of the network's byte order."""
    return attribute(kind, struct.pack("!I", value))


def head(family: int) -> bytes:
    """The head of a message."""
    return struct.pack("!BBH", family, 0, 0)


def chain(family: int, name: str, hook: int, policy: int | None) -> bytes:
    """A message about a chain; without a policy, about one that only other chains jump to."""
    body = head(family) + attribute(1, b"filter\0") + attribute(3, name.encode() + b"\0")
    return body if policy is None else body + nested(4, number(1, hook)) + number(5, policy)


def expression(name: str, data: bytes = b"") -> bytes:
    """An expression of a rule."""
    return nested(1, attribute(1, name.encode() + b"\0") + nested(2, data))


def verdict(code: int) -> bytes:
    """An expression that ends a rule."""
    return expression("immediate", number(1, 0) + nested(2, nested(2, number(1, code))))


def compared(value: bytes, *, equal: bool = True) -> bytes:
    """An expression that compares."""
    return expression("cmp", number(1, 1) + number(2, 0 if equal else 1) + nested(3, attribute(1, value)))


def rule(family: int, name: str, *expressions: bytes) -> bytes:
    """A message about a rule."""
    table = attribute(1, b"filter\0") + attribute(2, name.encode() + b"\0")
    return head(family) + table + nested(4, b"".join(expressions))


ESTABLISHED = (compared(b"\6\0\0\0"), verdict(ACCEPT))
REJECT = expression("reject", number(1, 2))
FOUND = FilterChain("forward", frozenset({4, 6}), "inet filter FORWARD")


@pytest.mark.parametrize(
    ("policy", "rules", "expected"),
    [
        (ACCEPT, [], ()),
        (DROP, [], (FOUND,)),
        (ACCEPT, [ESTABLISHED, (expression("counter"), verdict(DROP))], (FOUND,)),
        (ACCEPT, [(REJECT,)], (FOUND,)),
        (ACCEPT, [(expression("target", attribute(1, b"REJECT\0")),)], (FOUND,)),
        (ACCEPT, [(REJECT,), ESTABLISHED], ()),
        (ACCEPT, [(compared(b"x"), REJECT)], ()),
        (ACCEPT, [(expression("counter"),)], ()),
        (
            DROP,
            [(expression("match", attribute(1, b"physdev\0")), verdict(ACCEPT))],
            (FOUND._replace(accepts_bridged=True),),
        ),
        (
            DROP,
            [(compared(b"iso-br"), compared(b"iso-br"), verdict(ACCEPT))],
            (FOUND._replace(accepts_bridged=True),),
        ),
        (DROP, [(compared(b"eth0"), compared(b"iso-br"), verdict(ACCEPT))], (FOUND,)),
        (DROP, [(compared(b"iso-br"), compared(b"iso-br", equal=False), verdict(ACCEPT))], (FOUND,)),
        *(
            (DROP, [(compared(name), compared(name), verdict(ACCEPT))], (FOUND,))
            for name in (b"docker0\0", b"br-0123456789ab\0")
        ),
    ],
)
def test_a_chain(policy: int, rules: list[tuple[bytes, ...]], expected: tuple[FilterChain, ...]) -> None:
    """A chain drops by its policy, or by a last rule without a condition; rules about bridges are seen."""
    messages = [rule(INET, "FORWARD", *each) for each in rules]
    assert dropping_chains([chain(INET, "FORWARD", FORWARD, policy)], messages) == expected


def test_other_chains() -> None:
    """Chains of other hooks and families, and those that no hook has, count for nothing; rules are each chain's own."""
    chains = [
        chain(INET, "out", OUTPUT, DROP),
        chain(BRIDGE, "FORWARD", FORWARD, DROP),
        chain(IPV4, "jumped", FORWARD, None),
        chain(IPV6, "INPUT", INPUT, DROP),
        chain(IPV4, "FORWARD", FORWARD, ACCEPT),
    ]
    rules = [rule(IPV4, "jumped", verdict(DROP)), rule(IPV6, "FORWARD", verdict(DROP))]
    assert dropping_chains(chains, rules) == (FilterChain("input", frozenset({6}), "ip6 filter INPUT"),)
