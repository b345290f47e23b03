"""Malformed options of `network add` and `network modify`."""

import pytest

from lanloom.features.ipam.cli.grammar.syntax import (
    new_pool,
    new_subnet,
    pool_step,
    reserved_steps,
    subnet_step,
)
from lanloom.refusals import Malformed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add", "cidr is missing"),
        ("add:", "cidr is missing"),
        ("add:gateway=10.0.0.1", "cidr is missing"),
        ("add:10.0.0.0/24", "is no parameter; write cidr="),
        ("add:10.0.0.0/24,cidr=10.0.0.0/24", "is no parameter; write cidr="),
        ("x:10.0.0.0/25,modify,name=y", "is no parameter; write what is to change"),
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
        ("add:cidr=10.0.0.0/24,name=pool", "a meaning in options"),
        ("add:cidr=10.0.0.0/24,name=none", "write -name"),
        ("add:cidr=10.0.0.0/24,name=10.0.0.1", "addresses"),
        (
            "add:cidr=10.0.0.0/24,size=5",
            '"size" is not known here; possible are: cidr, gateway, dhcp, name, pool',
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
        ("remove:", "is no subnet"),
        ("remove", "is no subnet"),
        ("pool:remove", "is no subnet"),
        ("10.0.0.1:remove", "is no subnet"),
        ("10.0.0.1-10.0.0.5:remove", "is no subnet"),
        ("10.0.0.0/33:remove", "is not a CIDR"),
        ("a b:remove", "is no subnet"),
    ],
)
def test_malformed_subnets(text: str, message: str) -> None:
    """A malformed `--subnet` is told with the option, its text and what to write."""
    with pytest.raises(Malformed, match=message) as caught:
        subnet_step(text)
    assert str(caught.value).startswith(f'--subnet "{text}": ')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add", "either a range or subnet"),
        ("add:name=p", "either a range or subnet"),
        ("add:10.0.0.0/27,subnet=x", "one of them"),
        ("add:subnet=10.0.0.1", "is no subnet"),
        ("add:subnet=", "subnet needs a value"),
        ("add:foo", '"foo" is not known here'),
        ("add:10.0.0.5-10.0.0.1", "ends before it begins"),
        ("add:10.0.0.5-2001:db8::1", "different IP versions"),
        ("add:10.0.0.5-10.0.0.256", "is not an IP address"),
        ("add:10.0.0.5-", "is not an IP address"),
        ("add:10.0.0.5-10.0.0.6-10.0.0.7", "is not an IP address"),
        ("add:10.0.0.0/33", "is not a CIDR"),
        ("add:10.0.0.1,10.0.0.2", "is no parameter"),
        ("add:10.0.0.1,name=auto", "a meaning in options"),
        ("add:10.0.0.1,disabled=maybe", "disabled is either true or false"),
        ("p:modify", "changes nothing"),
        ("p:modify,10.0.0.1", "is no parameter"),
        ("p:10.0.0.1,modify,name=x", "is no parameter; write what is to change"),
        ("p:modify,subnet=x", '"subnet" is not known here'),
        ("p", "write add:RANGE"),
        ("192.0.2.1-192.0.2.9", "write add:RANGE"),
        ("p:name=q", "write add:RANGE"),
        ("pool:modify,name=x", "is no pool"),
        ("remove:", "is no pool"),
        ("10.0.0.9-10.0.0.1:remove", "ends before it begins"),
        ("remove:10.0.0.0/33", "is not a CIDR"),
        ("2001:db8::zz:remove", "is not an IP address"),
        ("10.0.0.256:remove", "is no pool"),
    ],
)
def test_malformed_pools(text: str, message: str) -> None:
    """A malformed `--pool` is told with the option, its text and what to write."""
    with pytest.raises(Malformed, match=message) as caught:
        pool_step(text)
    assert str(caught.value).startswith(f'--pool "{text}": ')


@pytest.mark.parametrize(
    "text", ["", ",", "10.0.0.1,", "x", "10.0.0.9-10.0.0.1", "10.0.0.0/33", "10.0.0.1 ,10.0.0.2"]
)
def test_malformed_reserved_addresses(text: str) -> None:
    """A malformed range among the reserved addresses is told with the option and its text."""
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
