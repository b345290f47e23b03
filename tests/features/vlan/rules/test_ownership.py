"""What is Lanloom's is what it made: whatever made a link and what it stands on, in each mode and for each feature."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.linknames import interface_name
from lanloom.features.dummy.rules.hostbridge import Assignment, alias_of, evaluate, orphaned_bridges
from lanloom.features.lan.rules.linksteps import alias_of as lan_alias_of
from lanloom.features.vlan.rules.desired.names import profile_file
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.owned import Added, named_links
from lanloom.features.vlan.rules.desired.plan import Plan, plan
from lanloom.node.marks import MARK
from lanloom.node.ownership import is_ours
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import DeleteLink, EnsureBridge, SetUp, Unmark
from lanloom.node.vlanids import contains
from tests.features.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.strategies import NODE
from tests.features.vlan.rules.test_plan import DHCP, one
from tests.harness.examples import examples

Wanted = tuple[NodeNetwork, ...]

UID = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001"
BRIDGE, BOND, SUB, FILE = "cluster-1-br", "cluster-1-bo", "clust-4afb.2012", "cluster-1-vlan2012.nmconnection"

MARKS = {
    "nobody": "",
    "vlan": MARK,
    "dummy": alias_of(UID),
    "lan": lan_alias_of(UID),
    "admin": "uplink of the storage team",
}
"""Who made the bridge, by its ifalias: Harvester's controller and installers set none."""

PROOFS: dict[str, tuple[bool, bool | None]] = {
    "none": (False, None),
    "profile": (True, None),
    "record": (False, True),
    "record of an earlier link": (False, False),
    "both": (True, True),
}
"""Whether a profile file names the sub-interface, and whether the record has its index, or that of a link before."""


def delegated(networks: Wanted) -> Wanted:
    """The same networks where Harvester's controller makes the uplinks."""
    return tuple(
        replace(
            item,
            foreign=True,
            delegated=True,
            nics=(),
            mode="",
            miimon=0,
            mtu=0,
            uplink_ids=item.bridge_ids,
            uplink_problems=(),
        )
        for item in networks
    )


def host(maker: str, *, sub: bool = True) -> LinkState:
    """Bridge and bond of cluster-1 that `maker` made, with a VLAN link on the bridge."""
    alias = MARKS[maker]
    ids = ((1, 1), (2012, 2012))
    links = [
        Link(name="eth1", index=2, up=True, master=BOND),
        Link(name=BOND, index=3, kind="bond", up=True, alias=alias, master=BRIDGE, vlans=ids),
        Link(name=BRIDGE, index=4, kind="bridge", up=True, alias=alias, vlan_filtering=True, self_vlans=ids),
    ]
    if sub:
        links.append(Link(name=SUB, index=9, kind="vlan", parent=BRIDGE, vlan_id=2012, up=True))
    return LinkState({link.name: link for link in links})


def evidence(proof: str) -> tuple[Mapping[str, bytes], Mapping[str, Added]]:
    """Profile files and record that prove it, or do not."""
    profile, known = PROOFS[proof]
    record = {} if known is None else {"cluster-1": Added(links={2012: 9 if known else 8})}
    return ({FILE: b""} if profile else {}), record


def touched(todo: Plan) -> set[str]:
    """The links that a plan changes or removes."""
    return {getattr(step, "name", getattr(step, "link", "")) for _, steps in todo.steps for step in steps}


@pytest.mark.parametrize("maker", MARKS)
@pytest.mark.parametrize("proof", PROOFS)
@pytest.mark.parametrize("mode", ["alone", "beside"])
@pytest.mark.parametrize("target", ["wanted", "unwanted", "gone"])
def test_a_sub_interface_is_ours_by_what_names_it(maker: str, proof: str, mode: str, target: str) -> None:
    """A profile file, or the record of this very link, makes a sub-interface ours; the maker of its bridge does not."""
    networks = {"wanted": one(DHCP), "unwanted": one(), "gone": ()}[target]
    networks = delegated(networks) if mode == "beside" else networks
    observed = host(maker)
    files, record = evidence(proof)
    mine = proof in ("profile", "record", "both")
    assert is_ours(observed.links[SUB], named_links(files, record)) == mine
    todo = plan(networks, observed, files, record, tidy=mode == "alone")
    if not mine:
        assert SUB not in touched(todo)
        assert not (todo.write_files or todo.remove_files)
        assert not any(
            SUB in step.above
            for _, steps in todo.steps
            for step in steps
            if isinstance(step, DeleteLink) and step.name in (BRIDGE, BOND)
        )
        usable = mode == "beside" or maker == "vlan"
        if target == "wanted" and usable:
            assert [item.reason for item in todo.problems["cluster-1"]] == ["ForeignLink"]
    elif target != "wanted" and not files:
        assert DeleteLink(name=SUB, index=9) in [step for _, steps in todo.steps for step in steps]
    elif target != "wanted":
        assert todo.remove_files == (FILE,)
        assert target == "gone" or todo.added["cluster-1"].links == {2012: 9}


@pytest.mark.parametrize("target", ["wanted", "unwanted", "gone"])
@pytest.mark.parametrize("mode", ["alone", "beside"])
def test_a_profile_that_somebody_removed_names_a_wanted_link_for_a_look(target: str, mode: str) -> None:
    """A link that was made again before its profile was removed is recorded and gets it back, if it is wanted still."""
    networks = {"wanted": one(DHCP), "unwanted": one(), "gone": ()}[target]
    networks = delegated(networks) if mode == "beside" else networks
    _, record = evidence("record of an earlier link")
    todo = plan(networks, host("vlan"), {}, record, seen=frozenset({FILE}), tidy=mode == "alone")
    if target == "wanted":
        assert (todo.problems, todo.added["cluster-1"].links) == ({}, {2012: 9})
        assert [file for file, _ in todo.write_files] == [FILE]
    else:
        assert SUB not in touched(todo) and not todo.added.get("cluster-1", Added()).links


@pytest.mark.parametrize("maker", MARKS)
@pytest.mark.parametrize("mode", ["alone", "beside"])
@pytest.mark.parametrize("target", ["wanted", "gone"])
def test_a_bridge_is_ours_by_its_own_mark(maker: str, mode: str, target: str) -> None:
    """Only links with the mark of VLAN networks are changed by them, and alongside Harvester they lose it."""
    networks = one(DHCP) if target == "wanted" else ()
    networks = delegated(networks) if mode == "beside" else networks
    observed = host(maker, sub=False)
    todo = plan(networks, observed, {}, {}, tidy=mode == "alone")
    steps = [step for _, steps in todo.steps for step in steps]
    if maker != "vlan":
        assert not any(isinstance(step, (DeleteLink, Unmark)) for step in steps)
        assert mode == "beside" or not touched(todo) & {BRIDGE, BOND}
    elif mode == "beside" and target == "wanted":
        assert steps[-2:] == [Unmark(link=BRIDGE), Unmark(link=BOND)]
        assert todo.added["cluster-1"].bridge == ((2012, 2012),)
    elif mode == "alone" and target == "gone":
        assert steps == [DeleteLink(name=BRIDGE), DeleteLink(name=BOND)]


@pytest.mark.parametrize("maker", MARKS)
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("above", ["nothing", "a VLAN link", "a port"])
def test_an_isolated_bridge_is_ours_by_its_owner(maker: str, state: str, above: str) -> None:
    """An isolated network changes the bridge with its own uid, and removes it only with nothing on it."""
    bridge = Link(name="x-br", index=3, kind="bridge", up=True, alias=MARKS[maker])
    links = {"x-br": bridge}
    if above != "nothing":
        where = (
            {"parent": "x-br", "kind": "vlan", "vlan_id": 7} if above == "a VLAN link" else {"master": "x-br"}
        )
        links["other"] = Link(name="other", index=5, **where)
    assert is_ours(bridge, owner=UID) == (maker in ("dummy", "lan"))
    if maker in ("dummy", "lan"):
        return
    task = Assignment(bridge="x-br", owner=UID, state="present" if state == "present" else "absent")
    assert evaluate(task, LinkState(links)).steps == ()
    assert orphaned_bridges((), links) == ()


@pytest.mark.parametrize("above", ["parent", "master"])
def test_an_isolated_bridge_stays_below_others(above: str) -> None:
    """The network's own bridge stays while a link of others is on it, by whatever relation."""
    links = {
        "x-br": Link(name="x-br", index=3, kind="bridge", up=True, alias=alias_of(UID)),
        "other": Link(name="other", index=5, kind="vlan", **{above: "x-br"}),  # type: ignore[arg-type]
    }
    verdict = evaluate(Assignment(bridge="x-br", owner=UID, state="absent"), LinkState(links))
    assert (verdict.steps, "other" in verdict.fault) == ((), True)
    assert orphaned_bridges((), links) == ()


def test_a_bridge_stays_below_links_of_others() -> None:
    """A bridge of ours that nothing wants stays while a link of others stands on it, and says so."""
    todo = plan((), host("vlan"), {}, {})
    assert touched(todo) == {BOND}
    (problem,) = todo.problems["cluster-1"]
    assert (problem.reason, SUB in problem.message) == ("BridgeInUse", True)


def test_ids_of_links_of_others_stay() -> None:
    """A VLAN link of others on a bridge of ours keeps its id on bridge and uplink; unused ids are removed."""
    ids = ((1, 1), (7, 7), (2012, 2012))
    links = host("vlan").links
    links = {
        **links,
        BRIDGE: replace(links[BRIDGE], self_vlans=ids),
        BOND: replace(links[BOND], vlans=ids),
    }
    ground = Ground()
    ground.reach(one())
    for link in links.values():
        ground.kernel.links[link.name] = link
    ground.reach(one())
    left = ((1, 1), (2012, 2012))
    assert (ground.kernel.links[BRIDGE].self_vlans, ground.kernel.links[BOND].vlans) == (left, left)


def test_a_sub_interface_of_others_is_not_set_up() -> None:
    """A VLAN link of others that is down stays down, although its VLAN is wanted."""
    ground = Ground()
    ground.reach(one())
    ground.kernel.add(Link(name=SUB, index=0, kind="vlan", parent=BRIDGE, vlan_id=2012))
    todo = ground.plan(one(DHCP))
    assert not any(isinstance(step, SetUp) for _, steps in todo.steps for step in steps)


def test_without_a_record_the_profiles_name_what_is_ours() -> None:
    """A host from before the record heals: what a profile file names is ours, in both modes, and is recorded then."""
    ground = Ground()
    ground.reach(one(DHCP))
    ground.added = {}
    for networks in (one(DHCP), delegated(one(DHCP))):
        todo = ground.plan(networks)
        assert (todo.problems, todo.write_files, todo.remove_files) == ({}, (), ())
    ground.reach(())
    assert not {BRIDGE, BOND, SUB} & ground.kernel.links.keys()


def targets() -> tuple[Wanted, ...]:
    """What may be wanted of cluster-1 and mgmt: nothing, uplinks, and addresses on either VLAN or both."""
    nads = [
        nad(f"{name}-{vid}", name, vid, mode="dhcp") for name in ("cluster-1", "mgmt") for vid in (36, 2012)
    ]
    objects = [node(NODE), cluster_network("cluster-1"), vlan_config("one", "cluster-1", nics=("eth1",))]
    both = [*objects, cluster_network("mgmt")]
    chosen = [nads[:0], nads[:1], nads[1:2], nads[:2], nads[2:], nads]
    return ((), *(cluster_of([*both, *some]).managed().on_node(NODE) for some in chosen))


_NETWORKS, _VIDS = st.sampled_from(["cluster-1", "mgmt"]), st.sampled_from([36, 2012])
TARGETS = targets()
_PLANS = st.tuples(
    st.just("plan"),
    st.integers(0, len(TARGETS) - 1),
    st.booleans(),
    st.sampled_from([99, 99, 1, 2, 3, 5]),
)
_EVENTS = st.one_of(
    _PLANS,
    _PLANS,
    st.tuples(st.just("vlan"), _NETWORKS, _VIDS, st.booleans()),
    st.tuples(st.just("uplink"), _NETWORKS),
    st.tuples(st.just("adopt"), _NETWORKS),
    st.tuples(st.just("file"), _NETWORKS, _VIDS),
    st.tuples(st.just("restart")),
)


class Others:
    """Harvester's controller and an administrator on a host: what they made, by index."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._made: set[int] = {link.index for link in ground.kernel.links.values()}

    def stand_on(self, network: str, vid: int, *, by_hand: bool) -> None:
        """A VLAN link on a bridge, with its id, called as Harvester's controller would call it or otherwise."""
        kernel, bridge = self._ground.kernel, f"{network}-br"
        name = f"hand{vid}" if by_hand else interface_name(network, vid)
        if bridge in kernel.links and name not in kernel.links:
            if not by_hand and profile_file(network, vid) in self._ground.files:
                return
            link = Link(name=name, index=0, kind="vlan", parent=bridge, vlan_id=vid, up=True)
            self._add(replace(link, addresses=("10.36.0.1/24",)))

    def make_uplink(self, network: str) -> None:
        """Bridge and bond of a cluster network, where there are none."""
        ids = ((1, 1), (36, 36))
        for kind, end in (("bridge", "br"), ("bond", "bo")):
            if f"{network}-{end}" not in self._ground.kernel.links:
                self._add(
                    Link(name=f"{network}-{end}", index=0, kind=kind, up=True, vlans=ids, self_vlans=ids)
                )

    def adopt(self, network: str) -> None:
        """An administrator gives bridge and bond to Lanloom."""
        for end in ("br", "bo"):
            link = self._ground.kernel.links.get(f"{network}-{end}")
            if link is not None and network != "mgmt":
                self._ground.kernel.change(link.name, alias=MARK)
                self._made.discard(link.index)

    def picture(self) -> Mapping[str, Link]:
        """Their links, but for NICs, and for what follows from the link below and the ids on their bridges."""
        return {
            link.name: replace(link, mtu=0, mac="", vlans=(), self_vlans=())
            for link in self._ground.kernel.links.values()
            if link.index in self._made and link.kind
        }

    def ids(self) -> Iterator[tuple[str, int]]:
        """Bridges of cluster networks with the ids of VLAN links that stand on them."""
        links = self._ground.kernel.links
        for link in links.values():
            below = links.get(link.parent)
            if link.index in self._made and below is not None and contains(below.self_vlans, link.vlan_id):
                yield below.name, link.vlan_id

    def _add(self, link: Link) -> None:
        self._ground.kernel.add(link)
        self._made.add(self._ground.kernel.links[link.name].index)


@settings(max_examples=examples(250))
@given(st.lists(_EVENTS, min_size=5, max_size=15))
def test_links_of_others_are_never_touched(events: list[tuple[object, ...]]) -> None:
    """In any order of modes, plans and deaths, a link that Lanloom did not make stays as its maker left it."""
    ground = Ground()
    others = Others(ground)
    for event in events:
        match event:
            case ("plan", int(target), bool(coexisting), int(stop)):
                asked = TARGETS[target]
                networks = delegated(asked) if coexisting else asked
                todo = plan(networks, ground.kernel.state(), ground.files, ground.added, tidy=not coexisting)
                for action in ground.actions(todo)[:stop]:
                    before, ids = others.picture(), set(others.ids())
                    action()
                    assert others.picture() == before
                    assert ids <= set(others.ids())
                ground.start_agent()
            case ("vlan", str(network), int(vid), bool(by_hand)):
                others.stand_on(network, vid, by_hand=by_hand)
            case ("uplink", str(network)):
                others.make_uplink(network)
            case ("adopt", str(network)):
                others.adopt(network)
            case ("file", str(network), int(vid)):
                ground.files.pop(profile_file(network, vid), None)
            case _:
                ground.restart_network_manager()


def _pods(*links: Link) -> dict[str, Link]:
    """The bridge of a NAD with a VLAN as CNI's plugin makes it for a pod, and more links."""
    bridge = Link(name=BRIDGE, index=4, kind="bridge", up=True, ignores_routers=True, vlan_filtering=True)
    pod = Link(name="veth1", index=5, kind="veth", up=True, master=BRIDGE, leads_away=True)
    nic = Link(name="eth1", index=2, up=True)
    return {link.name: link for link in (bridge, pod, nic, *links)}


OTHERS: dict[str, Mapping[str, Link]] = {
    "takes routes": _pods(replace(_pods()[BRIDGE], ignores_routers=False)),
    "spanning tree": _pods(replace(_pods()[BRIDGE], spanning_tree=True)),
    "an address": _pods(replace(_pods()[BRIDGE], addresses=("10.0.0.1/24",))),
    "an alias": _pods(replace(_pods()[BRIDGE], alias="storage")),
    "another's mark": _pods(replace(_pods()[BRIDGE], alias=alias_of(UID))),
    "in a vrf": _pods(replace(_pods()[BRIDGE], master="vrf1")),
    "a NIC in it": _pods(Link(name="eth7", index=8, up=True, master=BRIDGE)),
    "a bond in it": _pods(Link(name=BOND, index=8, kind="bond", up=True, master=BRIDGE)),
    "a cable of the host": _pods(Link(name="veth2", index=8, kind="veth", up=True, master=BRIDGE)),
    "a link on top": _pods(Link(name="x.7", index=8, kind="vlan", parent=BRIDGE, vlan_id=7)),
    "no bridge": _pods(replace(_pods()[BRIDGE], kind="vlan", vlan_id=7)),
}
"""What CNI's plugin never leaves: another program made the bridge, or uses it."""


@pytest.mark.parametrize("filtering", [True, False])
@pytest.mark.parametrize("ports", [True, False])
@pytest.mark.parametrize("mode", ["alone", "beside"])
def test_a_bridge_of_pods_that_came_first_becomes_ours(filtering: bool, ports: bool, mode: str) -> None:
    """Where a pod was quicker than the agent, the plugin's bridge is taken over alone, and left to others alongside
    Harvester.
    """
    links = _pods(replace(_pods()[BRIDGE], vlan_filtering=filtering))
    if not ports:
        del links["veth1"]
    networks = delegated(one()) if mode == "beside" else one()
    todo = plan(networks, LinkState(links), {}, {}, tidy=mode == "alone")
    steps = [step for _, steps in todo.steps for step in steps]
    assert (EnsureBridge(name=BRIDGE, mtu=1500) in steps) == (mode == "alone")
    if mode == "alone":
        assert not todo.problems
    assert "veth1" not in touched(todo)


@pytest.mark.parametrize("case", OTHERS)
def test_a_bridge_of_somebody_else_stays(case: str) -> None:
    """A bridge that differs from the plugin's in anything is another program's: a problem, and no step."""
    todo = plan(one(), LinkState(OTHERS[case]), {}, {})
    assert [item.reason for item in todo.problems["cluster-1"]] == ["ForeignLink"]
    assert not todo.steps


def test_a_plugins_bridge_of_no_network_stays() -> None:
    """What pods have the plugin make for no cluster network is left to them."""
    assert not plan((), LinkState(_pods()), {}, {}).steps
