"""Clusters and hosts for property tests: whatever may be wanted of a node, and whatever may be there already."""

from hypothesis import strategies as st

from lanloom.node.ports import Link
from lanloom.vlan.rules.desired import NodeNetwork
from tests.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config

NODE = "node1"
NICS = ("eth0", "eth1", "eth2", "eth3")
UPLINKS = {"cluster-1": "eth1", "cl8chars": "eth2", "n": "eth3"}
"""Cluster networks and their NICs. eth0 is nobody's."""

_VIDS = st.sampled_from([2, 3, 4, 10, 2012, 4094])
_TRUNKS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=2,
)


@st.composite
def wanted(draw: st.DrawFn, *, broken: bool = False) -> tuple[NodeNetwork, ...]:
    """What a node should carry. With `broken`, some annotations and configurations can't be read."""
    objects = [node(NODE)]
    for name in draw(st.sets(st.sampled_from(sorted(UPLINKS)))):
        objects.append(cluster_network(name))
        options = {"bondOptions": {"mode": draw(st.sampled_from(["active-backup", "802.3ad"]))}}
        mtu = {"linkAttributes": {"mtu": draw(st.sampled_from([0, 9000]))}}
        objects.append(vlan_config(name, name, nics=[UPLINKS[name]], uplink=options | mtu))
        for number, vid in enumerate(sorted(draw(st.sets(_VIDS, max_size=3)))):
            mode = draw(st.sampled_from(["", "dhcp", "static"]))
            addresses = {NODE: f"10.0.{number}.{draw(st.integers(1, 3))}/24"} if mode == "static" else None
            objects.append(nad(f"{name}-{vid}", name, vid, mode=mode, addresses=addresses))
        trunk = [{"minID": first, "maxID": last} for first, last in draw(_TRUNKS)]
        objects.append(nad(f"{name}-trunk", name, config={"vlanTrunk": trunk}))
        if broken and draw(st.booleans()):
            objects.append(nad(f"{name}-broken", name, config="{"))
    return cluster_of(objects).managed().on_node(NODE)


FOREIGN = (
    Link(name="mgmt-br", index=0, kind="bridge", up=True, addresses=("10.115.252.135/23",)),
    Link(name="docker0", index=0, kind="bridge", up=True, self_vlans=((1, 1), (2012, 2012))),
    Link(name="docker0.2012", index=0, kind="vlan", parent="docker0", vlan_id=2012, up=True),
    Link(name="bond0", index=0, kind="bond", up=True, master="docker0", vlans=((1, 1), (3, 3))),
)
"""Links that are none of Lanloom's business."""
