"""Links of Harvester's controller that were given to Lanloom become its own; all others stay their maker's."""

import json

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.features.vlan.rules.desired.adoption import NO_GRANT, AdoptionGrant, grant_of
from lanloom.features.vlan.rules.desired.plan import Plan, plan
from lanloom.node.marks import MARK
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import Mark
from tests.features.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config
from tests.features.vlan.rules.strategies import NODE
from tests.features.vlan.rules.test_ownership import BOND, BRIDGE, FILE, SUB, host

STATIC = nad("vlan2012", "cluster-1", 2012, mode="static", addresses={NODE: "10.0.0.1/24"})


def reached(observed: LinkState, grant: str, *, coexisting: bool = False) -> Plan:
    """The plan of a node whose cluster network has VLAN 2012, and gives this."""
    network = cluster_network("cluster-1", **{names.ADOPT_LINKS: grant})
    objects = cluster_of([node(NODE), network, vlan_config("one", "cluster-1"), STATIC]).managed()
    return plan(replace(objects, coexisting=coexisting).on_node(NODE), observed, {}, {}, tidy=not coexisting)


def marked(todo: Plan) -> list[str]:
    """The links that get the mark."""
    return [step.link for _, steps in todo.steps for step in steps if isinstance(step, Mark)]


def grant(*nodes: str, vlans: tuple[int, ...] = ()) -> str:
    """The value of the annotation."""
    return json.dumps({"nodes": nodes, "vlans": vlans})


def changed(name: str, **fields: object) -> LinkState:
    """Harvester's links, one of them otherwise."""
    links = dict(host("nobody").links)
    links[name] = replace(links[name], **fields)
    return LinkState(links)


def test_given_links_are_marked_and_nothing_else_changes() -> None:
    """Bridge and bond get the mark, the sub-interface a record and its profile; that is all."""
    observed = changed("eth1", operstate="UP")
    links = {
        name: replace(link, mtu=1500, bond_mode="active-backup", bond_miimon=100) if name == BOND else link
        for name, link in observed.links.items()
    }
    todo = reached(LinkState(links), grant(NODE, vlans=(2012,)))
    assert todo.steps == (("cluster-1", (Mark(link=BRIDGE), Mark(link=BOND))),)
    assert [name for name, _ in todo.write_files] == [FILE]
    assert (todo.problems, todo.added["cluster-1"].links) == ({}, {2012: 9})


@pytest.mark.parametrize(
    ("given", "coexisting"),
    [
        ("{}", False),
        (grant("node9"), False),
        ("[", False),
        ('{"nodes": 1}', False),
        (grant(NODE, vlans=(2012,)), True),
    ],
)
def test_what_is_not_given_stays(given: str, coexisting: bool) -> None:
    """Without a grant, on other nodes, with a broken one and alongside the controller no link is taken."""
    todo = reached(host("nobody"), given, coexisting=coexisting)
    assert not marked(todo)
    assert not todo.write_files
    assert [item.reason for item in todo.problems["cluster-1"]] == ["ForeignLink"]


@pytest.mark.parametrize(
    "observed",
    [
        changed(BRIDGE, alias="storage"),
        changed(BOND, alias="lanloom-dummy 2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001"),
        changed(BRIDGE, kind="vlan"),
        changed(BOND, kind="veth"),
        changed(BOND, master=""),
        changed(BOND, master="other-br"),
        LinkState({name: link for name, link in host("nobody").links.items() if name != BOND}),
    ],
)
def test_links_of_somebody_else_are_not_taken(observed: LinkState) -> None:
    """A grant is of bridge and bond as Harvester's controller leaves them: anything else is another's."""
    todo = reached(observed, grant(NODE, vlans=(2012,)))
    assert not marked(todo)
    assert [item.reason for item in todo.problems["cluster-1"]] == ["ForeignLink"]


@pytest.mark.parametrize(
    "sub",
    [
        Link(name=SUB, index=9, kind="vlan", parent=BRIDGE, vlan_id=2013),
        Link(name=SUB, index=9, kind="vlan", parent="eth1", vlan_id=2012),
        Link(name=SUB, index=9, kind="macvlan", parent=BRIDGE, vlan_id=2012),
        Link(name=SUB, index=9, kind="vlan", parent=BRIDGE, vlan_id=2012, alias="mine"),
        Link(name=SUB, index=9, kind="vlan", parent=BRIDGE, vlan_id=2012, addresses=("10.0.0.9/24",)),
        Link(
            name=SUB,
            index=9,
            kind="vlan",
            parent=BRIDGE,
            vlan_id=2012,
            addresses=("10.0.0.1/24", "10.0.0.9/24"),
        ),
    ],
)
def test_other_links_of_the_name_are_not_taken(sub: Link) -> None:
    """A sub-interface is taken with the name, the VLAN id, the bridge and at most the address that it should have."""
    todo = reached(LinkState({**host("nobody").links, SUB: sub}), grant(NODE, vlans=(2012,)))
    assert marked(todo) == [BRIDGE, BOND]
    assert [item.reason for item in todo.problems["cluster-1"]] == ["ForeignLink"]
    assert not todo.write_files


def test_a_sub_interface_needs_its_own_grant() -> None:
    """The grant of an uplink is none of what an administrator put on it."""
    todo = reached(host("nobody"), grant(NODE))
    assert marked(todo) == [BRIDGE, BOND]
    assert [item.vid for item in todo.problems["cluster-1"]] == [2012]


def test_a_crash_between_the_marks_is_repaired() -> None:
    """Where one of both has the mark already, the other one follows."""
    assert marked(reached(changed(BRIDGE, alias=MARK), grant(NODE))) == [BOND]


@pytest.mark.parametrize("text", ["", "null", "[]", '{"nodes": "node1"}', '{"vlans": ["1"]}', "[" * 10_000])
def test_a_broken_grant_gives_nothing(text: str) -> None:
    """A broken grant lets no node take anything."""
    network = cluster_of([cluster_network("cluster-1", **{names.ADOPT_LINKS: text})]).networks[0]
    assert grant_of(network) == NO_GRANT


def test_ids_that_no_sub_interface_has_are_left_out() -> None:
    """The default VLAN is given to no node."""
    text = '{"nodes": ["node1"], "vlans": [0, 1, 2, 4094, 4095]}'
    network = cluster_of([cluster_network("cluster-1", **{names.ADOPT_LINKS: text})]).networks[0]
    assert grant_of(network) == AdoptionGrant(("node1",), (2, 4094))
