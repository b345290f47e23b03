"""Networks with the scope cluster: the LAN that they stand on, from the first node to the last."""

from msgspec.structs import replace

from lanloom.api.dummy import LAN_READY, NAD_READY
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.lan import LAN, LANS
from lanloom.api.workloads import DAEMON_SETS
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import run
from tests.features.dummy.scenarios.events import VM
from tests.features.dummy.scenarios.looks import condition, is_gone
from tests.features.dummy.scenarios.state import State, put

SPANNING = on.made(scope="cluster", underlay="eth0")
TWO_NODES = on.both(on.node("n1"), on.node("n2"))


def lan(state: State) -> LAN:
    """The network's LAN."""
    (found,) = state.of(LANS)
    return found


def test_stands_on_a_lan() -> None:
    """The network makes a LAN without spokes that joins its bridges, and is ready when every node is on it."""
    state = run(on.both(TWO_NODES, SPANNING), State())
    made = lan(state)
    assert made.spec.host_bridge is not None
    assert made.spec.host_bridge.name == "dummy-br"
    assert made.spec.host_bridge.alias == f"lanloom-dummy {state.dcn.metadata.uid}"
    assert (made.spec.default_vxlan_dev, made.spec.spokes) == ("eth0", ())
    assert state.dcn.status.phase == "Ready"
    assert condition(state, LAN_READY) == "True Joined"
    assert on.config_of(state)["mtu"] == 1430
    (network,) = state.of(CLUSTER_NETWORKS)
    assert network.metadata.annotations["network.harvesterhci.io/uplink-mtu"] == "1430"
    assert ("LAN", made.metadata.name) in {(item.kind, item.name) for item in state.dcn.status.resources}
    assert "LANCreated" in state.reasons
    assert run(on.nothing, state).trace == ()


def test_the_ip_version_of_the_underlay() -> None:
    """The LAN has the IP version that the network names, and no other than its nodes' own without."""
    state = run(on.both(TWO_NODES, on.made(scope="cluster", underlay="eth0", underlayFamily="IPv6")), State())
    assert lan(state).spec.underlay_family == "IPv6"
    assert lan(run(on.both(TWO_NODES, SPANNING), State())).spec.underlay_family == ""


def test_scope_node_has_none() -> None:
    """A network of each node makes no LAN, and says nothing of one."""
    state = run(on.both(TWO_NODES, on.made()), State())
    assert state.of(LANS) == () and "mtu" not in on.config_of(state)
    assert all(item.type != LAN_READY for item in state.dcn.status.conditions)


def test_a_node_without_the_agent() -> None:
    """A node that has the bridge and is not on the LAN keeps the network from being ready, which names it."""
    state = run(on.both(TWO_NODES, SPANNING), State(lanless=frozenset({"n2"})))
    assert state.dcn.status.phase == "Pending"
    assert "waiting for n2 to join the LAN" in state.dcn.status.message
    assert "deploy/lan.yaml" in state.dcn.status.message
    assert condition(state, NAD_READY) == "True AsWanted"
    state = run(lambda state: replace(state, lanless=frozenset()), state)
    assert state.dcn.status.phase == "Ready"


def test_packets_that_do_not_fit() -> None:
    """A LAN whose underlay has no room for the network's packets is an error that says both sizes."""
    state = run(on.both(TWO_NODES, SPANNING), State(lan_mtu=1350))
    assert state.dcn.status.phase == "ErrorEnsuringLAN"
    assert "packets of 1430 bytes" in state.dcn.status.message
    assert "at most 1350" in state.dcn.status.message


def test_a_lan_that_is_refused() -> None:
    """Where the API server takes no LAN, nothing else is made, and its words are reported until it does."""
    state = run(on.both(on.refused(LANS.plural, "no such kind"), on.both(TWO_NODES, SPANNING)), State())
    assert (state.dcn.status.phase, state.dcn.status.message) == ("ErrorEnsuringLAN", "no such kind")
    assert state.of(DAEMON_SETS) == ()
    assert state.reasons.count("ErrorEnsuringLAN") == 1


def test_a_lan_of_others() -> None:
    """A LAN of that name that was not made for the network is left alone, and is the conflict."""
    state = run(on.both(TWO_NODES, SPANNING), State())
    made = lan(state)
    taken = put(state, replace(made, metadata=replace(made.metadata, labels={})), LANS)
    state = run(on.nothing, taken)
    assert state.dcn.status.phase == "ErrorEnsuringLAN"
    assert "was not created for this network" in state.dcn.status.message
    assert len(state.of(LANS)) == 1


def test_vni_of_its_own() -> None:
    """A network takes no VNI that a LAN has already."""
    state = run(on.both(TWO_NODES, SPANNING), State())
    first = lan(state)
    other = replace(first, metadata=replace(first.metadata, name="other", uid="other", labels={}))
    state = put(state, other, LANS)
    state = run(on.taken(LANS, first.metadata.key), state)
    again = next(item for item in state.of(LANS) if item.metadata.name == first.metadata.name)
    assert again.metadata.uid != first.metadata.uid
    assert again.spec.vni not in (0, first.spec.vni)


def test_deletion_in_order() -> None:
    """The LAN stays while the network is used, goes after the NAD, and before the bridges, where it has ports."""
    state = run(on.both(TWO_NODES, SPANNING), State())
    state = run(on.both(on.used(VM), on.removed()), state)
    assert state.dcn.status.phase == "DeletionBlocked" and not lan(state).metadata.is_deleting
    state = run(on.used(), state)
    assert is_gone(state) and state.of(LANS) == ()
    done = [line.partition(" ")[2] for line in state.trace if line[0].isdigit()]
    assert done.index("Delete NetworkAttachmentDefinition") < done.index("Delete LAN")
    assert done.index("Delete LAN") < done.index("Change DaemonSet")


def test_deletion_with_late_watches() -> None:
    """A LAN that no watch has brought is found before the network is let go."""
    state = run(on.both(TWO_NODES, SPANNING), State())
    state = run(on.both(on.unseen(LANS.kind), on.removed()), state)
    assert is_gone(state) and state.of(LANS) == ()
