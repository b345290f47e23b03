"""Ganeti's options of `network modify`."""

import pytest

from lanloom.features.ipam.cli.grammar.oldoptions import old_options, old_subnets
from lanloom.features.ipam.rules.addresses import parse_address
from lanloom.features.ipam.rules.change import apply
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.ranges import parse_cidr
from lanloom.refusals import Denied, Malformed

FOUR = Subnet(uuid="", cidr=parse_cidr("192.0.2.0/24")[0], gateway=parse_address("192.0.2.1"))
SIX = Subnet(uuid="u6", cidr=parse_cidr("2001:db8::/64")[0])


def changed(*subnets: Subnet, **options: str) -> Network:
    """A network after the options were applied."""
    network = Network(id="n", name="n", subnets=subnets)
    chosen: dict[str, str | None] = {"gateway": None, "network6": None, "gateway6": None, **options}
    steps = old_options(**chosen).steps(network)
    return apply(network, steps, Ledger(network), lambda: "new").network


def test_the_gateway_of_the_first_ipv4_subnet() -> None:
    """`--gateway` sets it or, with none, takes it away; also where the subnet has no UUID yet."""
    assert changed(SIX, FOUR, gateway="192.0.2.9").subnets[1].gateway == parse_address("192.0.2.9")
    assert changed(FOUR, gateway="none").subnets[0].gateway is None


def test_the_first_ipv6_subnet() -> None:
    """`--network6` changes it, or adds one without a pool; `--gateway6` may come along or alone."""
    (_, new) = changed(FOUR, network6="2001:db8:1::/64", gateway6="2001:db8:1::1").subnets
    assert (str(new.cidr), new.gateway, new.pools) == ("2001:db8:1::/64", parse_address("2001:db8:1::1"), ())
    (grown,) = changed(SIX, network6="2001:db8::/48").subnets
    assert str(grown.cidr) == "2001:db8::/48"
    assert changed(SIX, gateway6="2001:db8::1").subnets[0].gateway == parse_address("2001:db8::1")


def test_host_bits_are_told() -> None:
    """A CIDR that is normalised is noted, as everywhere."""
    network = Network(id="n", name="n")
    done = apply(
        network, old_options(None, "2001:db8::1/64", None).steps(network), Ledger(network), lambda: "u"
    )
    assert done.notes == ("--network6: 2001:db8::1/64 has host bits; it means 2001:db8::/64",)


@pytest.mark.parametrize("options", [{"gateway": "192.0.2.9"}, {"gateway6": "2001:db8::1"}])
def test_a_gateway_needs_a_subnet(options: dict[str, str]) -> None:
    """Where there is no subnet of the version, the option to add one is named."""
    with pytest.raises(Denied, match="--subnet add:cidr="):
        changed(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"gateway": "x"},
        {"gateway": ""},
        {"gateway": "2001:db8::1"},
        {"gateway6": "192.0.2.1"},
        {"network6": "192.0.2.0/24"},
        {"network6": "2001:db8::1"},
        {"network6": "none"},
    ],
)
def test_malformed_options(options: dict[str, str]) -> None:
    """What is of the wrong version, or nothing at all, is malformed whatever the network is; the option is quoted."""
    ((name, text),) = options.items()
    with pytest.raises(Malformed, match=f'^--{name} "{text}": '):
        changed(FOUR, SIX, **options)


def test_an_empty_value_of_a_new_network() -> None:
    """A variable of a script that is empty is not as if the option were not given."""
    with pytest.raises(Malformed, match=r'^--network "": '):
        old_subnets(network="")
    with pytest.raises(Malformed, match=r'^--gateway "": '):
        old_subnets(network="192.0.2.0/24", gateway="")
