"""What an agent saved comes back as it was, and nothing that was tampered with comes back at all."""

import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.agent.rollback.record import validated_network
from lanloom.features.vlan.rules.desired.names import (
    is_cluster_network,
    is_link,
    profile_file,
)
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.profile import read, render
from lanloom.node.keyfile import owner
from lanloom.node.vlanids import vlan_ids
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.strategies import NODE, wanted

Wanted = tuple[NodeNetwork, ...]


def example(name: str = "cluster-1") -> NodeNetwork:
    """A network with two VLANs, of which one has a node address."""
    objects = [
        node(NODE),
        cluster_network(name),
        nad("vlan2012", name, 2012, mode="dhcp"),
        nad("vlan2013", name, 2013),
    ]
    if name != "mgmt":
        objects.append(vlan_config("one", name))
    return cluster_of(objects).managed().on_node(NODE)[0]


@given(wanted(broken=True))
def test_what_was_saved_comes_back(networks: Wanted) -> None:
    """A network that was written as JSON and read again is the same, whatever it is."""
    raw = msgspec.json.encode(networks)
    again = msgspec.json.decode(raw, type=tuple[NodeNetwork, ...])
    assert tuple(validated_network(item) for item in again) == networks
    assert [item.digest for item in again] == [item.digest for item in networks]


_MUTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**40),
    st.text(max_size=12),
    st.lists(st.integers(-1, 5000), max_size=3),
    st.sampled_from(
        ["eth1", "../x", "eth0/x", "mgmt", "mgmt-br", "cluster-1", "a\nb", [[2, 4094]], [[5, 2]], 1, 4095]
    ),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))][
        0 if path else 1 :
    ]


@given(st.sampled_from(["cluster-1", "mgmt"]), st.data())
def test_what_was_tampered_with_is_lawful_or_dropped(name: str, data: st.DataObject) -> None:
    """Whatever is changed in the JSON, what comes back has lawful names, ids and profiles of its own."""
    document = json.loads(msgspec.json.encode(example(name)))
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(_places(document)))
        target = document
        for key in way:
            target = target[key]
        target[last] = deepcopy(data.draw(_MUTANTS))
    try:
        network = validated_network(msgspec.json.decode(json.dumps(document), type=NodeNetwork))
    except msgspec.DecodeError:
        return
    if network is not None:
        _assert_lawful(network)


def _assert_lawful(network: NodeNetwork) -> None:
    name = network.cluster_network
    assert is_cluster_network(name)
    assert (network.bridge, network.bond, network.foreign) == (f"{name}-br", f"{name}-bo", name == "mgmt")
    assert all(is_link(nic) for nic in network.nics)
    assert network.bridge_ids == vlan_ids(item.vid for item in network.interfaces)
    for first, last in network.uplink_ids:
        assert 2 <= first <= last <= 4094
    for item in network.interfaces:
        assert (item.name, item.file) == (interface_name(name, item.vid), profile_file(name, item.vid))
        assert owner(item.content) == f"{name}/{item.vid}"
        profile = read(item.content)
        assert profile is not None
        assert render(profile) == item.content


NETWORK, GUEST = example(), example("mgmt")
INTERFACE = NETWORK.interfaces[0]


@pytest.mark.parametrize(
    "odd",
    [
        replace(NETWORK, cluster_network="../../etc"),
        replace(NETWORK, bridge="eth0"),
        replace(NETWORK, bond="mgmt-bo"),
        replace(NETWORK, foreign=True),
        replace(NETWORK, nics=("eth1", "../eth1")),
        replace(NETWORK, mode="fast"),
        replace(NETWORK, miimon=0),
        replace(NETWORK, mtu=65536),
        replace(NETWORK, tx_queue_length=-1),
        replace(NETWORK, mac="ff:ff:ff:ff:ff:ff"),
        replace(NETWORK, uplink_ids=((1, 4094),)),
        replace(NETWORK, uplink_ids=((2012, 2012), (2013, 2013))),
        replace(NETWORK, uplink_ids=()),
        replace(NETWORK, bridge_ids=()),
        replace(NETWORK, interfaces=()),
        replace(NETWORK, interfaces=(INTERFACE, INTERFACE)),
        replace(NETWORK, interfaces=(replace(INTERFACE, file="mgmt-vlan2012.nmconnection"),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, name="eth0"),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, content=GUEST.interfaces[0].content),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, content=INTERFACE.content + b"[vpn]\n"),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, content=b""),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, vid=2013),)),
        replace(NETWORK, interfaces=(replace(INTERFACE, address="10.0.0.1/8"),)),
        replace(GUEST, foreign=False),
        replace(GUEST, foreign=False, mode="active-backup", miimon=100, mtu=1500),
        replace(NETWORK, delegated=True),
        replace(GUEST, nics=("eth0",)),
        replace(GUEST, mtu=9000),
    ],
)
def test_what_is_odd_is_dropped(odd: NodeNetwork) -> None:
    """One field that doesn't go with the others, or that no agent would write, and the network is not trusted."""
    assert validated_network(odd) is None


def test_a_profile_of_an_older_version_comes_back_as_this_one_writes_it() -> None:
    """After an upgrade, what was saved is rendered again."""
    old = INTERFACE.content.replace(b"ignore-auto-routes=true\n", b"")
    saved = replace(NETWORK, interfaces=(replace(INTERFACE, content=old),))
    assert old != INTERFACE.content
    assert validated_network(saved) == NETWORK
