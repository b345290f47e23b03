"""Plans: they lead where they should, from anywhere, however often they are interrupted, and touch nothing else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.dummy.rules.hostbridge import alias_of
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem
from lanloom.features.vlan.rules.desired.plan import plan
from lanloom.node.marks import MARK
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import AddVlans, DeleteLink, RemoveVlans
from lanloom.node.vlanids import contains, subtract
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.strategies import FOREIGN, NODE, wanted
from tests.harness.examples import examples

Wanted = tuple[NodeNetwork, ...]


def one(*nads: dict[str, Any], nics: tuple[str, ...] = ("eth1",)) -> Wanted:
    """What a node should carry for one cluster network with these NADs."""
    objects = [node(NODE), cluster_network("cluster-1"), vlan_config("one", "cluster-1", nics=nics), *nads]
    return cluster_of(objects).managed().on_node(NODE)


DHCP = nad("vlan2012", "cluster-1", 2012, mode="dhcp")


@given(wanted(), wanted())
def test_a_plan_reaches_what_is_wanted(first: Wanted, second: Wanted) -> None:
    """From any state to any other, one plan is enough: after it nothing is left to do."""
    ground = Ground()
    for target in (first, second):
        ground.reach(target)
        ground.reach(target)  # a NIC that another cluster network gave up is free only now
        assert ground.plan(target).empty


@given(wanted(), wanted(), st.integers(0, 40), st.booleans())
def test_an_interrupted_plan_ends_alike(first: Wanted, second: Wanted, stop: int, restart: bool) -> None:
    """An agent that dies after any action, and NetworkManager that restarts then, change nothing of the end."""
    straight, broken = Ground(), Ground()
    for ground in (straight, broken):
        ground.reach(first)
    straight.reach(second)
    for action in broken.actions(broken.plan(second))[:stop]:
        action()
    if restart:
        broken.restart_network_manager()
    broken.start_agent()
    broken.reach(second)
    broken.reach(second)
    assert broken.picture() == straight.picture()


@pytest.mark.parametrize("restart", [False, True], ids=["NetworkManager goes on", "NetworkManager restarts"])
@pytest.mark.parametrize("target", [(), one()], ids=["all goes", "a VLAN goes"])
def test_what_is_made_anew_meanwhile_goes(target: Wanted, restart: bool) -> None:
    """Wherever an agent dies while NetworkManager makes a link again, that link goes with its network."""
    straight = Ground()
    straight.reach(one(DHCP))
    last = len(straight.actions(straight.plan(target)))
    straight.reach(target)
    for stop in range(last + 1):
        broken = Ground()
        broken.reach(one(DHCP))
        broken.restless = True
        for action in broken.actions(broken.plan(target))[:stop]:
            action()
        if restart:
            broken.restart_network_manager()
        broken.start_agent()
        broken.reach(target)
        broken.reach(target)
        assert broken.picture() == straight.picture(), f"the agent died after action {stop}"


@given(wanted(), st.data())
def test_damage_is_repaired(target: Wanted, data: st.DataObject) -> None:
    """Deleted links, ids and files come back; what was set down, put elsewhere or given another MTU is put right."""
    ground = Ground()
    ground.reach(target)
    ground.reach(target)
    before = ground.picture()
    for _ in range(data.draw(st.integers(0, 3))):
        damage(ground, target, data)
    for name in sorted(ground.files):
        if data.draw(st.booleans()):
            del ground.files[name]
    ground.restart_network_manager()
    ground.start_agent()  # which has what is inactive activated
    ground.reach(target)
    ground.reach(target)
    assert ground.plan(target).empty
    assert ground.picture() == before


def damage(ground: Ground, target: Wanted, data: st.DataObject) -> None:
    """Does something to one of the links that are Lanloom's business."""
    subs = {item.name for network in target for item in network.interfaces}
    nics = {nic for network in target for nic in network.nics}
    ours = {name for name, link in ground.kernel.links.items() if link.ours}
    names = sorted(({*ours, *nics, *subs} & ground.kernel.links.keys()) - {link.name for link in FOREIGN})
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    link = ground.kernel.links[name]
    guest = link.parent == "mgmt-br"
    match data.draw(st.sampled_from(["delete", "down", "mtu", "ids", "release"])):
        case "delete" if name not in nics:
            ground.kernel.delete(name)
        case "down" if not guest:
            ground.kernel.change(name, up=False)
        case "mtu" if name not in subs:
            ground.kernel.change(name, mtu=1280)
        case "ids":
            ground.kernel.change(name, vlans=link.vlans[:1], self_vlans=link.self_vlans[:1])
        case "release" if name in nics or link.kind == "bond":
            ground.kernel.change(name, master="", vlans=())


@given(wanted(), wanted(broken=True))
def test_what_is_foreign_is_never_named(first: Wanted, second: Wanted) -> None:
    """Steps name Lanloom's links, the NICs of VlanConfigs, and ids on the installer's bridge; files are Lanloom's."""
    ground = Ground()
    ground.reach(first)
    todo, added = ground.plan(second), ground.added
    ours = {name for name, link in ground.kernel.links.items() if link.ours}
    ours |= {name for network in second if not network.foreign for name in (network.bridge, network.bond)}
    ours |= {nic for network in (*first, *second) for nic in network.nics}
    for _, steps in todo.steps:
        for step in steps:
            if isinstance(step, AddVlans | RemoveVlans):
                assert not contains(step.ids, 1)
                assert step.link in ours or step.link in ("mgmt-br", "mgmt-bo")
            elif isinstance(step, DeleteLink) and step.name not in ours:
                link = ground.kernel.links[step.name]
                assert any(item.links.get(link.vlan_id) == link.index for item in added.values())
            else:
                assert getattr(step, "name", getattr(step, "link", "")) in ours
    assert {*todo.remove_files, *todo.forget} <= ground.files.keys()
    ground.reach(second)
    assert ground.foreign() == FOREIGN


@given(wanted(), wanted(), st.integers(0, 40))
def test_the_installer_s_links_end_as_they_began(first: Wanted, second: Wanted, stop: int) -> None:
    """Ids that the installer's bridge and uplink had stay; when nothing is wanted any more they have just those."""
    ground = Ground()
    before = {link.name: ground.kernel.links[link.name] for link in FOREIGN}
    ground.reach(first)
    for action in ground.actions(ground.plan(second))[:stop]:
        action()
        for name, link in before.items():
            now = ground.kernel.links[name]
            assert not subtract(link.vlans, now.vlans)
            assert not subtract(link.self_vlans, now.self_vlans)
    ground.start_agent()
    ground.reach(())
    ground.reach(())
    assert {name: ground.kernel.links[name] for name in before} == before
    assert ground.plan(()).added == {}
    assert not ground.files


@given(wanted(), wanted(broken=True))
def test_what_can_t_be_read_takes_nothing_away(first: Wanted, second: Wanted) -> None:
    """A cluster network with a problem that freezes it keeps all its ids, profiles and interfaces."""
    ground = Ground()
    ground.reach(first)
    before, files = dict(ground.kernel.links), dict(ground.files)
    ground.reach(second)
    for network in second:
        if any(problem.keep for problem in network.problems):
            stem = f"{network.cluster_network}-vlan"
            assert {name for name in files if name.startswith(stem)} <= ground.files.keys()
            for name in (network.bridge, network.bond):
                if name in before:
                    old, new = before[name], ground.kernel.links[name]
                    ids = [vid for first, last in old.vlans for vid in range(first, last + 1)]
                    assert all(contains(new.vlans, vid) for vid in ids)


@settings(max_examples=examples(30))
@given(wanted())
def test_ids_change_in_one_step_per_link(target: Wanted) -> None:
    """However many ids change, a link is named once for those that come and once for those that go."""
    ground = Ground()
    for state in (target, ()):
        for _, steps in ground.plan(state).steps:
            changed = [
                (step.link, type(step), step.self_)
                for step in steps
                if isinstance(step, AddVlans | RemoveVlans)
            ]
            assert len(changed) == len(set(changed))
        ground.reach(state)


def test_a_frozen_id_stays_alone() -> None:
    """Where only one VLAN can't be read, that VLAN stays and the others follow what is wanted."""
    ground = Ground()
    other = nad("vlan5", "cluster-1", 5, mode="dhcp")
    ground.reach(one(DHCP, other))
    problem = Problem(vid=2012, network="x", reason="InvalidAnnotation", message="broken", keep=True)
    frozen = (replace(one()[0], problems=(problem,)),)
    ground.reach(frozen)
    assert sorted(ground.files) == ["cluster-1-vlan2012.nmconnection"]
    assert ground.kernel.links["cluster-1-br"].self_vlans == ((1, 1), (2012, 2012))


@pytest.mark.parametrize(
    ("link", "reason", "message"),
    [
        (
            Link(name="cluster-1-br", index=0, kind="bridge"),
            "ForeignLink",
            "the link cluster-1-br exists and was not created",
        ),
        (
            Link(name="cluster-1-bo", index=0, kind="bond"),
            "ForeignLink",
            "the link cluster-1-bo exists and was not created",
        ),
        (
            Link(name="cluster-1-br", index=0, kind="bridge", alias=alias_of("2f1c7f8e")),
            "ForeignLink",
            "the link cluster-1-br belongs to the DummyClusterNetwork with the uid 2f1c7f8e; delete that one, or",
        ),
        (
            Link(name="eth1", index=0, master="docker0"),
            "UplinkInUse",
            "the NIC eth1 already belongs to docker0",
        ),
        (
            Link(name="eth1", index=0, addresses=("10.0.0.1/8",)),
            "UplinkInUse",
            "the NIC eth1 has the address 10.0.0.1/8",
        ),
        (
            Link(name="eth1", index=0, addresses6=("fd00:1::1/64",)),
            "UplinkInUse",
            "the NIC eth1 has the address fd00:1::1/64",
        ),
    ],
)
def test_what_stands_in_the_way_is_told(link: Link, reason: str, message: str) -> None:
    """A foreign link of our name, and a NIC that is in use, are left alone and reported."""
    ground = Ground()
    ground.kernel.add(link)
    before = ground.kernel.links[link.name]
    todo = ground.plan(one(DHCP))
    (problem,) = todo.problems["cluster-1"]
    assert problem.reason == reason
    assert problem.message.startswith(message)
    ground.reach(one(DHCP))
    assert ground.kernel.links[link.name] == before


@pytest.mark.parametrize("vid", [2012, 2013])
def test_a_vlan_of_the_bridge_that_a_link_of_others_has(vid: int) -> None:
    """A link of others that has the VLAN of a sub-interface is reported by its name, and left alone; no other is."""
    ground = Ground()
    ground.reach(one())
    ground.kernel.add(Link(name="store0", index=0, kind="vlan", parent="cluster-1-br", vlan_id=vid))
    before = ground.kernel.links["store0"]
    todo = ground.plan(one(DHCP))
    found = todo.problems.get("cluster-1", ())
    texts = [(item.reason, item.message.partition(";")[0]) for item in found]
    needed = "the link store0 has VLAN 2012 of cluster-1-br, which clust-4afb.2012 needs"
    assert texts == ([("ForeignLink", needed)] if vid == 2012 else [])
    assert bool(todo.write_files) == (vid != 2012)
    ground.reach(one(DHCP))
    assert ground.kernel.links["store0"] == before


def test_a_sub_interface_that_was_renamed() -> None:
    """A sub-interface that another program renamed is reported, and is the node's again under its own name."""
    ground = Ground()
    ground.reach(one(DHCP))
    own = ground.kernel.links["clust-4afb.2012"]
    ground.kernel.delete(own.name)
    ground.kernel.add(replace(own, name="store0"))
    todo = ground.plan(one(DHCP))
    assert [
        item.message for item in todo.problems["cluster-1"] if "rename it to clust-4afb.2012" in item.message
    ]
    assert not (todo.remove_files or todo.steps)
    ground.kernel.delete("store0")
    ground.kernel.add(own)
    assert not ground.plan(one(DHCP)).problems


def test_no_profile_for_a_foreign_bridge() -> None:
    """Where the bridge is not Lanloom's, no profile puts an address on top of it."""
    ground = Ground()
    ground.kernel.add(Link(name="cluster-1-br", index=0, kind="bridge"))
    assert ground.plan(one(DHCP)).empty


def test_the_default_route_is_never_taken() -> None:
    """A NIC that the node's default route goes out of is left alone."""
    ground = Ground()
    ground.kernel.default_route_links = frozenset({"eth1"})
    (problem,) = ground.plan(one()).problems["cluster-1"]
    assert (problem.reason, problem.network) == ("UplinkInUse", "eth1")
    assert "cut the node off" in problem.message


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({}, "the NIC eth1 carries the node's default route over eth1.7.8; "),
        ({"addresses": ("10.0.0.1/24",)}, "the NIC eth1 has the address 10.0.0.1/24 over eth1.7.8; "),
        ({"addresses6": ("fd00::1/64",)}, "the NIC eth1 has the address fd00::1/64 over eth1.7.8; "),
        ({"master": "br0"}, "the NIC eth1 belongs to br0 over eth1.7.8; "),
    ],
)
def test_a_nic_below_somebody_s_vlan_is_never_taken(use: dict[str, Any], message: str) -> None:
    """A NIC that a VLAN link needs, be it over another one, is left alone: in the bond both would go down first."""
    links = [
        Link(name="eth1", index=2),
        Link(name="eth1.7", index=3, kind="vlan", parent="eth1", vlan_id=7),
        Link(name="eth1.7.8", index=4, kind="vlan", parent="eth1.7", vlan_id=8, **use),
    ]
    routes = frozenset(() if use else {"eth1.7.8"})
    found = plan(one(), LinkState({link.name: link for link in links}, routes), {})
    (problem,) = found.problems["cluster-1"]
    assert (problem.reason, problem.network) == ("UplinkInUse", "eth1")
    assert problem.message.startswith(message)
    assert "SetMaster(link='eth1'" not in repr(found.steps)


@pytest.mark.parametrize("nic", ["cluster-1-br", "cluster-1-bo", "cluster-2-br"])
def test_a_link_of_lanloom_s_is_no_nic(nic: str) -> None:
    """A bridge or bond of a cluster network is never put into a bond: it would be set down and up again endlessly."""
    ground = Ground()
    ground.reach(one())
    ground.kernel.add(Link(name="cluster-2-br", index=0, kind="bridge", alias=MARK, up=True))
    found = ground.plan(one(nics=("eth1", nic)))
    (problem,) = found.problems["cluster-1"]
    assert (problem.reason, problem.network) == ("UplinkInUse", nic)
    assert f"SetMaster(link='{nic}'" not in repr(found.steps)


def test_a_missing_nic_does_not_hold_up_the_others() -> None:
    """The uplink is built of the NICs that are there."""
    ground = Ground()
    ground.reach(one(DHCP, nics=("eth9", "eth1")))
    assert ground.kernel.links["eth1"].master == "cluster-1-bo"
    (problem,) = ground.plan(one(DHCP, nics=("eth9", "eth1"))).problems["cluster-1"]
    assert problem.message == "the NIC eth9 of VlanConfig one does not exist here; correct spec.uplink.nics"


def test_a_bridge_in_use_stays() -> None:
    """A bridge that is not wanted any more stays while a virtual machine is on it, and says so."""
    ground = Ground()
    ground.reach(one(DHCP))
    ground.kernel.add(Link(name="tap0", index=0, kind="tun", master="cluster-1-br"))
    ground.reach(())
    (problem,) = ground.plan(()).problems["cluster-1"]
    assert problem.reason == "BridgeInUse"
    assert "tap0" in problem.message
    assert set(ground.kernel.links) & {"cluster-1-br", "cluster-1-bo"} == {"cluster-1-br"}
    assert ground.files == {}


def test_nothing_is_left_behind() -> None:
    """When nothing is wanted any more, the host is as before, but for NICs, which the kernel sets down."""
    ground = Ground()
    before = ground.picture()
    ground.reach(one(DHCP, nics=("eth1", "eth2")))
    ground.reach(())
    for nic in ("eth1", "eth2"):
        ground.kernel.change(nic, up=True)
    assert ground.picture() == before


def test_what_goes_is_told_by_cluster_network() -> None:
    """Steps that remove a cluster network are its own, so that it is known whose removal fails."""
    ground = Ground()
    ground.reach(one(DHCP))
    assert ground.plan(()).steps == (
        (
            "cluster-1",
            (DeleteLink(name="cluster-1-br", above=("clust-4afb.2012",)), DeleteLink(name="cluster-1-bo")),
        ),
    )


@pytest.mark.parametrize("name", ["a-name-of-13-x", "with.dot", "-x", "Upper"])
def test_no_link_is_named_after_what_can_t_name_one(name: str) -> None:
    """A ClusterNetwork that no webhook saw, with a name that is not one of a link, is left alone."""
    objects = [node(NODE), cluster_network(name), vlan_config("one", name)]
    assert cluster_of(objects).managed().on_node(NODE) == ()


def test_the_mark_alone_makes_a_link_ours() -> None:
    """A leftover with the mark goes whatever its name; one without it stays whatever its name."""
    links = {
        "strange": Link(name="strange", index=1, kind="bond", alias=MARK),
        "cluster-9-bo": Link(name="cluster-9-bo", index=2, kind="bond"),
    }
    assert plan((), LinkState(links), {}).steps == (("", (DeleteLink(name="strange"),)),)


def test_a_profile_with_the_mark_is_ours_whatever_its_name() -> None:
    """A profile with Lanloom's mark that no VLAN gives is removed."""
    assert plan((), LinkState({}), {"old.nmconnection": b""}).remove_files == ("old.nmconnection",)
