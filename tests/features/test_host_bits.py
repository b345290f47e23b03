"""Sets of addresses with host bits: refused wherever one can be written, with both spellings that may be meant."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lanloom.api.ipam import NETWORKS
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.routing import parse_routes
from lanloom.features.dummy.rules.spec import subnet_fault
from lanloom.features.ipam.admission.nads import nad_faults
from lanloom.features.ipam.cli.grammar.syntax import add_steps, modify_steps, reserved_steps
from lanloom.features.ipam.ganeti.formats.fields import range_of
from lanloom.features.ipam.rules.addresses import parse_range, stored_range
from lanloom.features.lan.rules.ipamconfig import ipam_faults
from lanloom.hostbits import host_bits
from lanloom.nads.faults import check_faults
from lanloom.refusals import Refusal
from tests.features.ipam.admission.requests import defaults, network, subnet, verdict_of
from tests.harness.admission import request

Raw = dict[str, Any]

WIDE, WHOLE, ONE = "192.0.2.9/28", "192.0.2.0/28", "192.0.2.9/32"


def message_of(read: Callable[[], object]) -> str:
    """The refusal of a reading; empty if there is none."""
    try:
        read()
    except (Refusal, ValueError) as refusal:
        return str(refusal)
    return ""


def written(**fields: Any) -> Callable[[str], str]:
    """The refusal of a network with a text in one of its fields."""

    def answer(text: str) -> str:
        values = {name: value(text) for name, value in fields.items()}
        return verdict_of(request(NETWORKS, network("net1", subnet(gateway=None, **values)))).message

    return answer


def own_routes(dst: str) -> Raw:
    """A section for lanloom-ipam with a route."""
    return {"type": "lanloom-ipam", "network": "net1", "routes": [{"dst": "10.0.0.0/8"}, {"dst": dst}]}


def user_nad(section: Raw, kind: str = "k8slanveth") -> NetworkAttachmentDefinition:
    """A NAD, for a spoke of a LAN or in a list of plugins, with this `ipam`."""
    plugin = {"type": kind, "ipam": section}
    config = {**plugin, "veth": "a"} if kind == "k8slanveth" else {"plugins": [plugin]}
    body = {"metadata": {"name": "mine", "namespace": "nets"}, "spec": {"config": json.dumps(config)}}
    return msgspec.convert(body, NetworkAttachmentDefinition)


PLACES: dict[str, Callable[[str], str]] = {
    "a Network's spec.subnets.external": written(external=lambda text: [text], pools=lambda _: []),
    "a Network's spec.subnets.pools.range": written(pools=lambda text: [{"range": text}]),
    "network add --add-reserved-ips": lambda text: message_of(lambda: add_steps(reserved=text)),
    "network add --pool": lambda text: message_of(lambda: add_steps(pools=[text])),
    "network add --pool subnet=": lambda text: message_of(lambda: add_steps(pools=[f"subnet={text}"])),
    "network modify --add-reserved-ips": lambda text: message_of(
        lambda: reserved_steps(f"192.0.2.77,{text}", True)
    ),
    "network modify --remove-reserved-ips": lambda text: message_of(lambda: reserved_steps(text, False)),
    "network modify --pool add:": lambda text: message_of(lambda: modify_steps(pools=[f"add:{text}"])),
    "network modify --pool remove:": lambda text: message_of(lambda: modify_steps(pools=[f"remove:{text}"])),
    "network modify --pool RANGE:modify": lambda text: message_of(
        lambda: modify_steps(pools=[f"{text}:modify,name=x"])
    ),
    "network modify --subnet CIDR:remove": lambda text: message_of(lambda: modify_steps([f"{text}:remove"])),
    "network modify --subnet CIDR:modify": lambda text: message_of(
        lambda: modify_steps([f"{text}:modify,dhcp"])
    ),
    "a range in a file of Ganeti": lambda text: message_of(lambda: range_of(text, "networks.x.external[0]")),
    "a route of lanloom-ipam in any NAD": lambda text: message_of(
        lambda: check_faults(user_nad(own_routes(text), "bridge"), None, nad_faults)
    ),
    "a route of static in a NAD at a LAN": lambda text: message_of(
        lambda: check_faults(user_nad({"type": "static", "routes": [{"dst": text}]}), None, ipam_faults)
    ),
    "a route annotation of a NAD": lambda text: message_of(
        lambda: parse_routes("routes", f'[{{"to": "{text}", "via": "10.0.0.1"}}]', {})
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_host_bits_are_refused(place: str) -> None:
    """The message has the text, and what was meant: all of it, or one address."""
    message = PLACES[place](WIDE)
    assert all(text in message for text in (WIDE, WHOLE, ONE)), message


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [WHOLE, ONE])
def test_both_spellings_are_accepted(place: str, text: str) -> None:
    """What the message proposes can be written in the same place."""
    assert PLACES[place](text) == ""


def test_subnet_of_an_isolated_network() -> None:
    """Its subnet is written in one form; a single address can't be one."""
    assert subnet_fault(WIDE) == f'is "{WIDE}", which is not the form of a subnet: did you mean {WHOLE}?'


def test_subnet_by_one_of_its_addresses() -> None:
    """A subnet takes nothing away, so it may be written as with Ganeti, and is read with a note."""
    (step,) = modify_steps([f"add:cidr={WIDE}"])
    assert step.notes == (f"--subnet: {WIDE} has host bits; it means {WHOLE}",)  # type: ignore[union-attr]
    asked = request(NETWORKS, network("net1", {"cidr": WIDE}))
    assert verdict_of(asked).allowed and defaults(asked).warnings


STORED = network("net1", subnet(external=["192.0.2.129/26"], pools=[{"range": "192.0.2.5/28"}]))


def test_stored_ranges() -> None:
    """What an earlier version stored means what it meant: it stays, with a warning, along with any other change."""
    changed = network(
        "net1", subnet(external=["192.0.2.129/26", "192.0.2.9"], pools=[{"range": "192.0.2.5/28"}])
    )
    asked = request(NETWORKS, changed, STORED)
    assert verdict_of(asked).allowed
    assert defaults(asked).warnings == (
        "spec.subnets[0].external[0]: 192.0.2.129/26 has host bits; did you mean 192.0.2.128/26 (64 addresses) or "
        "192.0.2.129/32? It still means 192.0.2.128-192.0.2.191",
        "spec.subnets[0].pools[0].range: 192.0.2.5/28 has host bits; did you mean 192.0.2.0/28 (16 addresses) or "
        "192.0.2.5/32? It still means 192.0.2.0-192.0.2.15",
    )
    worse = network(
        "net1", subnet(external=["192.0.2.129/26", "192.0.2.9/29"], pools=[{"range": "192.0.2.5/28"}])
    )
    assert "spec.subnets[0].external[1]" in verdict_of(request(NETWORKS, worse, STORED)).message


def test_two_reservations_of_single_addresses() -> None:
    """Two addresses with the subnet's length do not reserve the subnet, also where they would be merged into it."""
    body = network("st14", {"cidr": "192.168.14.0/23", "external": ["192.168.14.1/23", "192.168.15.254/23"]})
    asked = request(NETWORKS, body)
    assert defaults(asked).patch == ()
    assert verdict_of(asked).message == (
        "Network st14: spec.subnets[0].external[0]: 192.168.14.1/23 has host bits; did you mean 192.168.14.0/23 "
        "(512 addresses) or 192.168.14.1/32?"
    )


def test_route_from_before() -> None:
    """A stored NAD with such a route can be changed, with a warning."""
    section = {"type": "static", "routes": [{"dst": WIDE}]}
    old = user_nad(section)
    new = user_nad({**section, "addresses": [{"address": "192.0.2.1/24"}]})
    (warning,) = check_faults(new, old, ipam_faults)
    new, old = user_nad({**own_routes(WIDE), "defaultRoute": True}), user_nad(own_routes(WIDE))
    (own,) = check_faults(new, old, nad_faults)
    assert all(WIDE in text and "as before" in text for text in (warning, own))
    assert check_faults(old, old, nad_faults) == ()
    assert check_faults(old, None, ipam_faults) == ()


@pytest.mark.parametrize(
    ("text", "size"),
    [("2001:db8::1/64", "2^64 addresses"), ("10.0.0.1/0", "4294967296 addresses"), ("10.0.0.1/31", "2 a")],
)
def test_sizes(text: str, size: str) -> None:
    """The message says how many addresses were about to be meant."""
    assert f"({size}" in host_bits(text)


@pytest.mark.parametrize(
    "text", ["", "x", "10.0.0.0/8", "10.0.0.1", "10.0.0.1-10.0.0.3", "10.0.0.1/x", "::1/128"]
)
def test_no_host_bits(text: str) -> None:
    """Any other text is none of this."""
    assert host_bits(text) == ""


def test_ranges_read_from_the_store() -> None:
    """A stored range is read as the version that stored it did."""
    assert stored_range(WIDE) == parse_range(WHOLE)
