"""Malformed options of `network add` and `network modify`, and Ganeti's options."""

import pytest

from lanloom.features.ipam.cli.grammar.syntax import (
    new_pool,
    new_subnet,
    old_options,
    old_subnets,
    pool_step,
    reserved_steps,
    subnet_step,
)
from lanloom.features.ipam.rules.addresses import parse_address, parse_cidr
from lanloom.features.ipam.rules.change import apply
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.refusals import Denied, Malformed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add", "cidr is missing"),
        ("add:", "cidr is missing"),
        ("add:gateway=10.0.0.1", "cidr is missing"),
        ("add:10.0.0.0/24", "is not a parameter; write cidr="),
        ("add:10.0.0.0/24,cidr=10.0.0.0/24", "is not a parameter; write cidr="),
        ("x:10.0.0.0/25,modify,name=y", "is not a parameter; write the change"),
        ("add:cidr=10.0.0.0", "is not a CIDR"),
        ("add:cidr=10.0.0.0/33", "is not a CIDR"),
        ("add:cidr=10.0.0.0/024", "is not a CIDR"),
        ("add:cidr=10.0.0/24", "is not a CIDR"),
        ("add:cidr=2001:db8::/129", "is not a CIDR"),
        ("add:cidr=", "cidr needs a value"),
        ("add:cidr", "cidr needs a value"),
        ("add:-cidr", "cidr needs a value"),
        ("add:cidr=10.0.0.0/24,gateway=10.0.1.1", "lies outside of 10.0.0.0/24"),
        ("add:cidr=10.0.0.0/24,gateway=10.0.0.255", "broadcast"),
        ("add:cidr=10.0.0.0/24,gateway=2001:db8::1", "lies outside"),
        ("add:cidr=10.0.0.0/24,gateway=10.0.0", "gateway: .* is not an IP address"),
        ("add:cidr=10.0.0.0/24,gateway", "gateway needs a value"),
        ("add:cidr=10.0.0.0/24,dhcp=yes", "dhcp is either true or false"),
        ("add:cidr=10.0.0.0/24,-dhcp", "dhcp is either true or false"),
        ("add:cidr=10.0.0.0/24,pool=p", "pool is either true or false"),
        ("add:cidr=10.0.0.0/24,name=pool", "the word is reserved for options"),
        ("add:cidr=10.0.0.0/24,name=none", "write -name"),
        ("add:cidr=10.0.0.0/24,name=10.0.0.1", "addresses"),
        (
            "add:cidr=10.0.0.0/24,size=5",
            '"size" is not known here; possible are: cidr, gateway, dhcp, lease, name, pool',
        ),
        ("add:cidr=10.0.0.0/24,cidr=10.0.0.0/24", "cidr is given twice"),
        ("x:add,cidr=10.0.0.0/24", "write add:cidr="),
        ("x", "write add:cidr="),
        ("x:name=y", "write add:cidr="),
        ("2001:db8::/64", "write add:cidr="),
        ("x:modify", "changes nothing"),
        ("x:modify,pool", '"pool" is not known here'),
        ("x:modify,cidr=10.0.0.0/24,gateway=10.0.1.1", "lies outside"),
        ("x:modify,name=", "name needs a value"),
        ("x:modify,no_name", "name needs a value"),
        ("x:modify,no_gateway", "gateway needs a value"),
        ("x:remove,name=y", "remove takes no parameters"),
        ("remove:", "is not a subnet"),
        ("remove", "is not a subnet"),
        ("pool:remove", "is not a subnet"),
        ("10.0.0.1:remove", "is not a subnet"),
        ("10.0.0.1-10.0.0.5:remove", "is not a subnet"),
        ("10.0.0.0/33:remove", "is not a CIDR"),
        ("a b:remove", "is not a subnet"),
    ],
)
def test_malformed_subnets(text: str, message: str) -> None:
    """A malformed `--subnet` is reported with the option, its text and what to write."""
    with pytest.raises(Malformed, match=message) as caught:
        subnet_step(text)
    assert str(caught.value).startswith(f'--subnet "{text}": ')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add", "one of them: a range or subnet"),
        ("add:name=p", "one of them: a range or subnet"),
        ("add:10.0.0.0/27,subnet=x", "one of them"),
        ("add:subnet=10.0.0.1", "is not a subnet"),
        ("add:subnet=", "subnet needs a value"),
        ("add:foo", '"foo" is not known here'),
        ("add:10.0.0.5-10.0.0.1", "ends before it begins"),
        ("add:10.0.0.5-2001:db8::1", "different IP versions"),
        ("add:10.0.0.5-10.0.0.256", "is not an IP address"),
        ("add:10.0.0.5-", "is not an IP address"),
        ("add:10.0.0.5-10.0.0.6-10.0.0.7", "is not an IP address"),
        ("add:10.0.0.0/33", "is not a CIDR"),
        ("add:10.0.0.1,10.0.0.2", "is not a parameter"),
        ("add:10.0.0.1,name=auto", "the word is reserved for options"),
        ("add:10.0.0.1,disabled=maybe", "disabled is either true or false"),
        ("p:modify", "changes nothing"),
        ("p:modify,10.0.0.1", "is not a parameter"),
        ("p:10.0.0.1,modify,name=x", "is not a parameter; write the change"),
        ("p:modify,subnet=x", '"subnet" is not known here'),
        ("p", "write add:RANGE"),
        ("192.0.2.1-192.0.2.9", "write add:RANGE"),
        ("p:name=q", "write add:RANGE"),
        ("pool:modify,name=x", "is not a pool"),
        ("remove:", "is not a pool"),
        ("10.0.0.9-10.0.0.1:remove", "ends before it begins"),
        ("remove:10.0.0.0/33", "is not a CIDR"),
        ("2001:db8::zz:remove", "is not an IP address"),
        ("10.0.0.256:remove", "is not a pool"),
    ],
)
def test_malformed_pools(text: str, message: str) -> None:
    """A malformed `--pool` is reported with the option, its text and what to write."""
    with pytest.raises(Malformed, match=message) as caught:
        pool_step(text)
    assert str(caught.value).startswith(f'--pool "{text}": ')


@pytest.mark.parametrize(
    "text", ["", ",", "10.0.0.1,", "x", "10.0.0.9-10.0.0.1", "10.0.0.0/33", "10.0.0.1 ,10.0.0.2"]
)
def test_malformed_reserved_addresses(text: str) -> None:
    """A malformed range among the reserved addresses is reported with the option and its text."""
    for adding, flag in ((True, "--add-reserved-ips"), (False, "--remove-reserved-ips")):
        with pytest.raises(Malformed) as caught:
            reserved_steps(text, adding)
        assert str(caught.value).startswith(f'{flag} "{text}": ')


@pytest.mark.parametrize(
    "text", ["add:cidr=10.0.0.0/24", "x:modify,dhcp", "10.0.0.0/24", "", "cidr=10.0.0.0/24,modify"]
)
def test_malformed_subnets_of_add(text: str) -> None:
    """`--subnet` of `network add` has parameters only."""
    with pytest.raises(Malformed, match="--subnet"):
        new_subnet(text)


@pytest.mark.parametrize("text", ["add:10.0.0.1", "", "name=x", "10.0.0.1,remove"])
def test_malformed_pools_of_add(text: str) -> None:
    """`--pool` of `network add` has a range or subnet, and parameters."""
    with pytest.raises(Malformed, match="--pool"):
        new_pool(text)


def test_a_long_option_is_cut_in_its_message() -> None:
    """A message quotes a printable line of limited length, whatever was given."""
    with pytest.raises(Malformed) as caught:
        subnet_step("add:cidr=\x1b[31m" + "9" * 5000)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 400


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
