"""One operation: the order of its steps, and that it happens whole or not at all."""

import pytest
from msgspec.structs import replace

from lanloom.features.ipam.cli.grammar.syntax import modify_steps
from lanloom.features.ipam.rules.change import Step, apply, in_order
from lanloom.features.ipam.rules.general import (
    AddTags,
    Connect,
    Disconnect,
    RemoveTags,
    Rename,
    SetMacPrefix,
    check_connection,
)
from lanloom.features.ipam.rules.model import Connection, Network
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.rules.network_text import (
    ledger_for,
    lines,
    modified,
    network_with,
    uuid,
)

NET = network_with("cidr=10.0.0.0/24,name=a", pools=["10.0.0.10-10.0.0.19,name=p"])


def test_subnets_then_pools_then_reserved() -> None:
    """Options take effect as subnets, pools, added and removed reserved addresses, wherever they stand."""
    change = modified(
        NET,
        subnets=["add:cidr=10.1.0.0/24,name=b"],
        pools=["add:subnet=b,name=q"],
        add="10.1.0.5-10.1.0.9",
        remove="10.1.0.7",
    )
    assert lines(change.network)[2:] == [
        "10.1.0.0/24 (b)",
        "  pool 10.1.0.0-10.1.0.255 (q)",
        "  reserved 10.1.0.5-10.1.0.6",
        "  reserved 10.1.0.8-10.1.0.9",
    ]
    steps = modify_steps(["a:modify,dhcp"], ["p:remove"], "10.0.0.5", "10.0.0.6")
    assert in_order(reversed(steps)) == steps


def test_options_of_one_kind_take_effect_as_given() -> None:
    """Steps of one kind are checked in the order given, each on what those before it made."""
    change = modified(NET, pools=["p:modify,name=q", "q:remove", "add:10.0.0.15,name=p"])
    assert lines(change.network) == ["10.0.0.0/24 (a)", "  pool 10.0.0.15 (p)"]
    with pytest.raises(Denied, match='no pool "q"'):
        modified(NET, pools=["q:remove", "p:modify,name=q"])


def test_all_or_nothing() -> None:
    """If the last step is refused, nothing has changed: neither the network nor who owns what."""
    ledger = ledger_for(NET, {"nic": ["10.0.0.12"]})
    before, owned = lines(NET), list(ledger.owned_in(NET.subnets[0].cidr.range))
    steps = modify_steps(["add:cidr=10.1.0.0/24"], ["p:remove", "add:10.1.0.0/25"], "10.1.0.9", "10.1.0.0")
    with pytest.raises(Denied):
        apply(NET, steps, ledger, lambda: uuid(2))
    assert lines(NET) == before
    assert list(ledger.owned_in(NET.subnets[0].cidr.range)) == owned


def test_notes_are_those_of_every_step() -> None:
    """Notes of all steps are returned, in the order in which the steps were made."""
    change = modified(NET, ["add:cidr=10.1.0.9/24"], ["add:10.0.0.30/31"], remove="10.0.0.99")
    assert change.notes == (
        "--subnet: 10.1.0.9/24 has host bits; it means 10.1.0.0/24",
        "nothing of 10.0.0.99 is reserved; nothing was removed",
    )


def made(network: Network, *steps: Step) -> Network:
    """The network after these steps."""
    return apply(network, steps, ledger_for(network), lambda: uuid(9)).network


BRIDGED = Connection(group="default", mode="bridged", link="br0")


def test_general_steps() -> None:
    """A network is renamed, tagged, connected and given a MAC prefix, and its id stays."""
    network = made(
        NET,
        Rename(name="Net_2"),
        SetMacPrefix(prefix="AA:00:55"),
        AddTags(tags=("b", "a", "b")),
        Connect(connection=BRIDGED),
    )
    assert (network.id, network.name, network.mac_prefix, network.tags) == (
        "net1",
        "Net_2",
        "aa:00:55",
        ("a", "b"),
    )
    assert network.connections == (BRIDGED,)
    back = made(
        network,
        Rename(name="net1"),
        SetMacPrefix(prefix=""),
        RemoveTags(tags=("a", "b")),
        Disconnect(group="default"),
    )
    assert back == NET


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Rename(name="net1"), Denied),
        (Rename(name="pool"), Malformed),
        (Rename(name="10.0.0.1"), Malformed),
        (SetMacPrefix(prefix="aa:00"), Malformed),
        (SetMacPrefix(prefix="01:00:00"), Malformed),
        (AddTags(tags=("a b",)), Malformed),
        (AddTags(tags=("",)), Malformed),
        (RemoveTags(tags=("a",)), Denied),
        (Disconnect(group="default"), Denied),
        (Connect(connection=Connection(group="", mode="bridged", link="br0")), Malformed),
        (Connect(connection=Connection(group="g", mode="magic", link="br0")), Malformed),
        (Connect(connection=Connection(group="g", mode="routed", link="a b")), Malformed),
        (Connect(connection=Connection(group="g", mode="bridged", link="br0", vlan="4095")), Malformed),
        (Connect(connection=Connection(group="g", mode="bridged", link="br0", vlan="0")), Malformed),
    ],
)
def test_refused_general_steps(step: Step, error: type[Refusal]) -> None:
    """What is malformed, there already or not there at all is refused."""
    with pytest.raises(error):
        made(NET, step)


@pytest.mark.parametrize("vlan", ["", "1", "4094", ".10", ":20", ":20:30", ".10:20:30", "10:20"])
def test_vlan_ids(vlan: str) -> None:
    """A connection has a VLAN id, or several as Ganeti writes them."""
    check_connection(replace(BRIDGED, vlan=vlan))


@pytest.mark.parametrize("vlan", ["0", "4095", ".", ":", "10:", "a", "1.2", "-1", "10:0", "١"])
def test_what_is_no_vlan_id(vlan: str) -> None:
    """What is no VLAN id from 1 to 4094 is malformed."""
    with pytest.raises(Malformed, match="VLAN id"):
        check_connection(replace(BRIDGED, vlan=vlan))


def test_a_node_group_is_connected_once() -> None:
    """A second connection of the same group is refused."""
    with pytest.raises(Denied, match="already"):
        made(NET, Connect(connection=BRIDGED), Connect(connection=BRIDGED))
