"""What others changed is reported in sentences, each with its kind."""

from collections.abc import Callable

import pytest

from lanloom.api.bonds import BondSettings
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.plan import drift
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.strategies import NODE

OPTIONS = {
    "bondOptions": {"mode": "balance-xor", "miimon": 50, "xmitHashPolicy": "layer3+4"},
    "linkAttributes": {"txQLen": 500, "hardwareAddr": "02:00:5e:10:00:01"},
}
OBJECTS = [
    node(NODE),
    cluster_network("cluster-1"),
    cluster_network("mgmt"),
    vlan_config("one", "cluster-1", nics=("eth1", "eth2"), uplink=OPTIONS),
    nad("vlan2012", "cluster-1", 2012, mode="dhcp"),
    nad("vms", "cluster-1", config={"vlanTrunk": [{"minID": 20, "maxID": 29}]}),
    nad("vlan2014", "mgmt", 2014, mode="dhcp"),
]
NETWORKS = ("cluster-1", "mgmt")


def carried() -> tuple[NodeNetwork, ...]:
    """What the node should carry, and has carried."""
    return cluster_of(OBJECTS).managed().on_node(NODE)


def told(
    meddle: Callable[[Ground], object], networks: tuple[str, ...] = NETWORKS
) -> list[tuple[str, str, str]]:
    """What is said after that was done to a node at rest."""
    ground = Ground()
    ground.reach(carried())
    assert ground.plan(carried()).empty
    meddle(ground)
    found = drift(networks, ground.plan(carried()), ground.kernel.state(), ground.files)
    return [(item.cluster_network, item.kind, item.text) for item in found]


def _change(name: str, **fields: object) -> Callable[[Ground], object]:
    return lambda ground: ground.kernel.change(name, **fields)


def _edit(ground: Ground) -> None:
    ground.files["cluster-1-vlan2012.nmconnection"] += b"# mine\n"


@pytest.mark.parametrize(
    ("meddle", "expected"),
    [
        (lambda ground: None, []),
        (_change("cluster-1-br", up=False), [("link", "the bridge cluster-1-br was down")]),
        (
            _change("cluster-1-br", mtu=1400),
            [("link", "the bridge cluster-1-br had the MTU 1400 instead of 1500")],
        ),
        (
            _change("cluster-1-br", vlan_filtering=False),
            [("link", "VLAN filtering of the bridge cluster-1-br was off")],
        ),
        (
            _change("cluster-1-bo", bond_mode="broadcast"),
            [("link", "the bond cluster-1-bo had the mode broadcast instead of balance-xor")],
        ),
        (
            _change("cluster-1-bo", bond_miimon=0),
            [("link", "the bond cluster-1-bo had the miimon 0 instead of 50")],
        ),
        (
            _change("cluster-1-bo", bond_settings=BondSettings(xmit_hash_policy="layer2")),
            [
                ("link", "the bond cluster-1-bo had the xmit_hash_policy layer2 instead of layer3+4"),
            ],
        ),
        (
            _change("cluster-1-bo", tx_queue_length=1000),
            [("link", "the queue of the bond cluster-1-bo took 1000 packets instead of 500")],
        ),
        (
            _change("cluster-1-bo", mac="02:00:00:00:00:09"),
            [
                (
                    "link",
                    "the bond cluster-1-bo had the MAC address 02:00:00:00:00:09 instead of 02:00:5e:10:00:01",
                )
            ],
        ),
        (
            _change("cluster-1-bo", mac="02:00:00:00:00:09", up=False),
            [
                ("link", "the bond cluster-1-bo was down"),
                (
                    "link",
                    "the bond cluster-1-bo had the MAC address 02:00:00:00:00:09 instead of 02:00:5e:10:00:01",
                ),
            ],
        ),
        (
            _change("cluster-1-bo", master="", vlans=()),
            [
                ("link", "cluster-1-bo was not in cluster-1-br"),
                ("vlan-id", "VLAN ids 20-29,2012 were missing on cluster-1-bo"),
            ],
        ),
        (_change("eth2", master=""), [("link", "eth2 was not in cluster-1-bo")]),
        (_change("eth2", up=False), [("link", "eth2 was down")]),
        (_change("eth2", mtu=1400), [("link", "eth2 had the MTU 1400 instead of 1500")]),
        (_change("eth3", master="cluster-1-bo"), [("link", "eth3 was put into cluster-1-bo")]),
        (_change("clust-4afb.2012", up=False), [("link", "clust-4afb.2012 was down")]),
        (
            _change("cluster-1-br", self_vlans=((1, 1), (7, 7), (9, 9))),
            [
                ("vlan-id", "VLAN id 2012 was missing on cluster-1-br"),
                ("vlan-id", "VLAN ids 7,9 were added to cluster-1-br"),
            ],
        ),
        (
            lambda ground: ground.files.pop("cluster-1-vlan2012.nmconnection"),
            [("profile", "the profile cluster-1-vlan2012.nmconnection was removed")],
        ),
        (_edit, [("profile", "the profile cluster-1-vlan2012.nmconnection was edited")]),
        (
            lambda ground: ground.files.update({"cluster-1-vlan7.nmconnection": b""}),
            [("profile", "the profile cluster-1-vlan7.nmconnection was added")],
        ),
    ],
)
def test_what_somebody_did_is_told(
    meddle: Callable[[Ground], object], expected: list[tuple[str, str]]
) -> None:
    """Each kind of change has its sentence, which names the link, the id or the file."""
    assert told(meddle) == [("cluster-1", *item) for item in expected]


def test_a_bridge_that_was_deleted_is_told() -> None:
    """What went with a link is reported as well."""
    texts = [text for _, _, text in told(lambda ground: ground.kernel.delete("cluster-1-br"))]
    assert texts[0] == "the bridge cluster-1-br was gone"
    assert "VLAN id 2012 was missing on cluster-1-br" in texts


def test_an_id_that_is_missing_on_the_installer_s_bridge_is_told() -> None:
    """mgmt has drift as any other cluster network."""
    found = told(_change("mgmt-br", self_vlans=((1, 1), (2021, 2021))))
    assert found == [("mgmt", "vlan-id", "VLAN id 2014 was missing on mgmt-br")]


def test_what_is_wanted_anew_is_no_drift() -> None:
    """Networks that are not named, because something else is wanted of them now, have none."""
    assert told(_change("cluster-1-br", up=False), networks=("mgmt",)) == []
