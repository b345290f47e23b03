"""Options of the form IDENT:ACTION,key=value."""

import pytest

from lanloom.features.ipam.cli.grammar.options import (
    Option,
    Value,
    parse_option,
    parse_parameters,
)
from lanloom.refusals import Malformed

Parts = tuple[str, str, str, dict[str, Value]]


def parts(option: Option) -> Parts:
    """What an option says."""
    return option.ident, option.action, option.bare, option.params


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Ganeti's own forms.
        ("0:ip=pool,link=br0", ("0", "", "", {"ip": "pool", "link": "br0"})),
        ("0:", ("0", "", "", {})),
        ("0", ("0", "", "", {})),
        ("add", ("", "add", "", {})),
        ("add:", ("", "add", "", {})),
        ("remove", ("", "remove", "", {})),
        ("add:ip0=pool", ("", "add", "", {"ip0": "pool"})),
        ("-1:add,ip0=pool,ip1=192.0.2.4", ("-1", "add", "", {"ip0": "pool", "ip1": "192.0.2.4"})),
        ("0:modify,ip1=none", ("0", "modify", "", {"ip1": "none"})),
        ("0:ip1=none,modify", ("0", "modify", "", {"ip1": "none"})),
        ("1:remove", ("1", "remove", "", {})),
        ("remove:1", ("1", "remove", "", {})),
        # A bare key means true, no_x false, -x none.
        ("x:modify,dhcp", ("x", "modify", "", {"dhcp": True})),
        (
            "x:modify,no_dhcp,-gateway,-name",
            ("x", "modify", "", {"dhcp": False, "gateway": None, "name": None}),
        ),
        ("x:modify,name=", ("x", "modify", "", {"name": ""})),
        ("x:modify,name=a=b", ("x", "modify", "", {"name": "a=b"})),
        # IPv6 identifiers.
        ("2001:db8::/64:remove", ("2001:db8::/64", "remove", "", {})),
        ("remove:2001:db8::/64", ("2001:db8::/64", "remove", "", {})),
        (
            "2001:db8::/64:modify,dhcp=false,name=foo",
            ("2001:db8::/64", "modify", "", {"dhcp": "false", "name": "foo"}),
        ),
        (
            "2001:db8::/64:modify,gateway=2001:db8::add",
            ("2001:db8::/64", "modify", "", {"gateway": "2001:db8::add"}),
        ),
        ("2001:db8::1-2001:db8::add:remove", ("2001:db8::1-2001:db8::add", "remove", "", {})),
        ("2001:db8::add:modify,name=x", ("2001:db8::add", "modify", "", {"name": "x"})),
        ("remove:2001:db8::1-2001:db8::add", ("2001:db8::1-2001:db8::add", "remove", "", {})),
        ("remove:2001:db8::add", ("2001:db8::add", "remove", "", {})),
        ("0:ip0=2001:db8::add,network=n", ("0", "", "", {"ip0": "2001:db8::add", "network": "n"})),
        ("add:cidr=2001::/64,gateway=2001::1", ("", "add", "", {"cidr": "2001::/64", "gateway": "2001::1"})),
        # Ranges come before keys and values.
        ("add:192.0.2.10-192.0.2.100,name=p", ("", "add", "192.0.2.10-192.0.2.100", {"name": "p"})),
        ("add:10.0.0.0/27", ("", "add", "10.0.0.0/27", {})),
        ("add:2001:db8::add", ("", "add", "2001:db8::add", {})),
    ],
)
def test_forms(text: str, expected: Parts) -> None:
    """An option has the parts that Ganeti gives it, and identifiers may be IPv6 addresses."""
    assert parts(parse_option(text, "--x")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the identifier is missing"),
        (":remove", "the identifier is missing"),
        (":a=b", "the identifier is missing"),
        ("0:a=1,a=2", "a is given twice"),
        ("0:dhcp,no_dhcp", "dhcp is given twice"),
        ("0:-a,a=1", "a is given twice"),
        ("0:modify,add", "two actions"),
        ("0:modify,remove", "two actions"),
        ("add:modify,a=b", "two actions"),
        ("add:x:remove", "two actions"),
        ("remove:x:remove", "two actions"),
        ("remove:2001:db8::/64:remove", "two actions"),
        ("x:modify:remove", "two actions"),
        (",a=b:remove", "is not an identifier"),
        ("a=b:remove", "is not an identifier"),
        ("0:modify=1", "takes no value"),
        ("0:no_modify", "takes no value"),
        ("0:remove,a=1", "remove takes no parameters"),
        ("0:a=1,remove", "remove takes no parameters"),
        ("0:10.0.0.1,remove", "remove takes no parameters"),
        ("remove:x,a=1", "remove takes no parameters"),
        ("remove:a=1", "remove takes no parameters"),
        ("0:a=1,", "a parameter is missing between two commas"),
        ("0:,a=1", "a parameter is missing between two commas"),
        ("0:a=1,,b=2", "a parameter is missing between two commas"),
        ("0:a=1,=2", '"=2" is not a parameter'),
        ("0:a=1,10.0.0.1", '"10.0.0.1" is not a parameter'),
        ("0:a=1,no_", '"no_" is not a parameter'),
        ("0:a=1,-", '"-" is not a parameter'),
        ("0:-a=1", '"-a=1" is not a parameter'),
    ],
)
def test_malformed_options(text: str, message: str) -> None:
    """What contradicts itself is malformed, and the message quotes option and text."""
    with pytest.raises(Malformed, match=message) as caught:
        parse_option(text, "--x")
    assert str(caught.value).startswith(f'--x "{text}": ')


def test_parameters_without_an_identifier() -> None:
    """Options of `add` commands have parameters only, with a range in front."""
    assert parts(parse_parameters("2001:db8::1-2001:db8::add,name=p", "--x")) == (
        "",
        "",
        "2001:db8::1-2001:db8::add",
        {"name": "p"},
    )
    for text in ("add,cidr=10.0.0.0/24", "remove", "add:cidr=10.0.0.0/24"):
        with pytest.raises(Malformed):
            parse_parameters(text, "--x")


def test_values() -> None:
    """Values are read as texts or as truth, and what is neither is malformed."""
    option = parse_option("0:a=x,b=true,no_c,d,e=,-f,g=yes", "--x")
    assert (option.string("a"), option.string("z")) == ("x", None)
    assert [option.boolean(key) for key in "bcdz"] == [True, False, True, None]
    for key in "cdef":
        with pytest.raises(Malformed, match=f"{key} needs a value"):
            option.string(key)
    for key in "aefg":
        with pytest.raises(Malformed, match=f"{key} is either true or false"):
            option.boolean(key)
    with pytest.raises(Malformed, match='"g" is not known here; possible are: a, b'):
        parse_option("0:a,g", "--x").only(("a", "b"))
