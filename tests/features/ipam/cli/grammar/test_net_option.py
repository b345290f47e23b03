"""What `--net` says, and what it can not say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.ipam.cli.grammar.net_option import NetStep, changes, new_nics
from lanloom.refusals import Malformed
from tests.harness.examples import examples


def step(text: str, *, new: bool = False) -> NetStep:
    """The only step of an option."""
    (found,) = new_nics([text]) if new else changes([text])
    return found


@pytest.mark.parametrize(
    ("text", "ips", "network"),
    [
        ("0:ip0=192.0.2.4,ip1=pool,ip2=some-name,network=net1", ["192.0.2.4", "pool", "some-name"], "net1"),
        ("0:ip=pool,network=net1", ["pool"], "net1"),
        ("0:network=net1,ip1=pool6,ip0=2001:DB8::0:5", ["2001:db8::5", "pool6"], "net1"),
        ("0:add,ip=pool,network=net1", ["pool"], "net1"),
        ("0:ip=none,network=net1", [], "net1"),
        ("0:-ip,network=net1", [], "net1"),
        ("0:ip=none", [], None),
        ("0:", [], None),
        ("0", [], None),
    ],
)
def test_a_new_nic(text: str, ips: list[str], network: str | None) -> None:
    """Addresses are read by index, canonically; `ip` is `ip0`, and `none` alone means no address."""
    found = step(text, new=True)
    assert (found.action, [found.ips[index] for index in range(len(found.ips))]) == ("add", ips)
    assert found.network == network


@pytest.mark.parametrize(
    ("text", "action", "ident", "ips"),
    [
        ("0:modify,ip1=192.0.2.10", "modify", "0", {1: "192.0.2.10"}),
        ("0:ip0=pool", "modify", "0", {0: "pool"}),
        ("1:modify,ip1=none", "modify", "1", {1: "none"}),
        ("1:modify,-ip", "modify", "1", {0: "none"}),
        ("-1:add,ip0=pool,ip1=192.0.2.4,network=net1", "add", "-1", {0: "pool", 1: "192.0.2.4"}),
        ("add:ip0=pool,network=net1", "add", "", {0: "pool"}),
        ("2:add", "add", "2", {}),
        ("0:remove", "remove", "0", {}),
        ("remove:web", "remove", "web", {}),
        ("remove", "remove", "", {}),
        ("web:modify,ip=2001:db8::add", "modify", "web", {0: "2001:db8::add"}),
    ],
)
def test_a_change(text: str, action: str, ident: str, ips: dict[int, str]) -> None:
    """All of Ganeti's forms are known; without an action it is a modification."""
    found = step(text)
    assert (found.action, found.ident, found.ips) == (action, ident, ips)


def test_the_other_parameters() -> None:
    """Mode, link, VLAN, MAC address and name are checked; `none` and `-key` take away."""
    found = step("0:modify,mode=openvswitch,link=br-ex,vlan=.10:20,mac=AA:00:00:12:34:56,name=web")
    assert (found.mode, found.link, found.vlan) == ("openvswitch", "br-ex", ".10:20")
    assert (found.mac, found.name) == ("aa:00:00:12:34:56", "web")
    found = step("0:modify,-name,link=none,network=none,mac=generate,-vlan")
    assert (found.name, found.link, found.network, found.mac, found.vlan) == ("", "", "", "auto", "")
    assert found.mode is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:ip=pool,ip0=pool,network=net1", "ip is an alias of ip0"),
        ("0:ip0=pool,ip2=pool,network=net1", "ip1 is missing"),
        ("0:ip1=none,network=net1", "none can't be combined with other addresses|ip0 is missing"),
        ("0:ip0=pool,ip1=none,network=net1", "none can't be combined with other addresses"),
        ("0:ip0=pool", "addresses belong to a network"),
        ("0:ip0=pool,network=none", "addresses belong to a network"),
        ("0:ip0=192.0.2.5,ip1=192.0.2.5,network=net1", "192.0.2.5 is requested twice"),
        ("0:ip0=192.0.2.0/24,network=net1", "neither an IP address nor"),
        ("0:ip0=10.0.0.1-10.0.0.5,network=net1", "neither an IP address nor"),
        ("0:ip,network=net1", "ip needs a value"),
        ("0:no_ip,network=net1", "ip needs a value"),
        ("0:ip=,network=net1", "ip needs a value; write ip=…, or ip=none"),
        ("0:ip=pool,network=", "network needs a value"),
        ("0:name=", "name needs a value"),
        ("0:ip0=pool,ip0=pool,network=net1", "given twice"),
        ("0:ip64=pool,network=net1", "64 addresses at most"),
        ("0:ip999=pool,network=net1", '"ip999" is not a parameter'),
        ("0:ip01=pool,network=net1", '"ip01" is not a parameter'),
        ("0:ip=pool,network1", '"network1" is not a parameter; .* write network=network1'),
        ("0:ipp=pool,network=net1", '"ipp" is not a parameter'),
        ("0:192.0.2.4,network=net1", 'write "ip0=192.0.2.4"'),
        ("0:ip=pool,,network=net1", "between two commas"),
        ("0:network=net1,mode=bridged", "come from the network"),
        ("0:network=net1,vlan=5", "come from the network"),
        ("0:mode=bridge", "is not a mode of a NIC; choose one of bridged, routed, openvswitch"),
        ("0:link=a b", "is not a link"),
        ("0:network=a/b", "is not a network"),
        ("0:network=192.0.2.0/24,ip=pool", "is not a network"),
        ("0:vlan=4095", "is not a VLAN id; write one from 1 to 4094"),
        ("0:vlan=x", "is not a VLAN id"),
        (f"0:vlan={'9' * 5000}", "from 1 to 4094"),
        ("0:mac=aa:00:00:12:34", "is not a MAC address"),
        ("0:mac=01:00:00:12:34:56", "of a group"),
        ("0:mac=00:00:00:00:00:00", "is not a valid MAC address of a NIC"),
        ("0:mac=none", "always has a MAC address"),
        ("0:name=pool", "can't be the name of a NIC"),
        ("0:name=17", "would be taken for a NIC's number"),
        ("0:modify,ip0=pool", "no NIC to change yet"),
        ("0:remove", "no NIC to change yet"),
        ("-1:add,ip0=pool,network=net1", "are numbered"),
        ("web:ip0=pool,network=net1", "are numbered"),
        (":ip0=pool", "the identifier is missing"),
        ("", "the identifier is missing"),
        ("ip=pool,network=net1", "the NIC is missing; write its number first: 0:…"),
        ("ip=2001:db8::4,network=net1", "the NIC is missing"),
        ("1:ip0=pool,network=net1", "leaves a gap: NIC 0 is missing"),
    ],
)
def test_what_a_new_nic_can_not_be(text: str, message: str) -> None:
    """Each mistake in the description of a new NIC is reported with the option and what to write."""
    with pytest.raises(Malformed, match=message):
        new_nics([text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:modify", "it changes nothing; parameters are"),
        ("0:modify,ip1=", "ip1 needs a value; write ip1=…, or ip1=none"),
        ("0:", "it changes nothing"),
        ("0:remove,ip0=pool", "remove takes no parameters"),
        ("0:add,remove", "two actions"),
        ("0:modify,remove", "two actions"),
        ("web:add,ip0=pool,network=net1", "gets a number"),
        ("-2:add,ip0=pool,network=net1", "gets a number"),
        ("-1:add,ip0=pool", "addresses belong to a network"),
        ("-1:add,ip1=pool,network=net1", "ip0 is missing"),
        ("0:modify,ip=pool,ip0=none", "ip is an alias of ip0"),
        ("0:modify,ip1=192.0.2.5,ip0=192.0.2.5", "requested twice"),
        ("0:modify,colour=red", '"colour" is not a parameter'),
        ("ip1=none", "the NIC is missing"),
    ],
)
def test_what_a_change_can_not_be(text: str, message: str) -> None:
    """Each mistake in a change is reported with the option and what to write."""
    with pytest.raises(Malformed, match=message) as caught:
        changes([text])
    assert str(caught.value).startswith(f'--net "{text}": ')


def test_many_nics() -> None:
    """NICs of a new instance may come in any order, but without gaps, and each once; there must be one."""
    found = new_nics(["1:name=b", "0:name=a"])
    assert [nic.name for nic in found] == ["a", "b"]
    with pytest.raises(Malformed, match="NIC 1 is missing"):
        new_nics(["0", "2"])
    with pytest.raises(Malformed, match="NIC 0 is given twice"):
        new_nics(["0", "0"])
    with pytest.raises(Malformed, match="an instance needs a NIC"):
        new_nics([])
    with pytest.raises(Malformed, match="no change is given"):
        changes([])


_PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["0", "-1", ":", ",", "=", "add", "remove", "modify", "ip", "ip0", "ip1=", "network=net1", "pool"]
    ),
    st.sampled_from(["none", "mac=", "vlan=", "2001:db8::1", "192.0.2.4", "9" * 5000, "no_", "-", "name="]),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_PIECES, max_size=8).map("".join))
def test_any_text(text: str) -> None:
    """Whatever is given, it is understood or malformed, and the message is one line."""
    for read in (new_nics, changes):
        try:
            read([text])
        except Malformed as error:
            assert len(str(error).splitlines()) == 1
