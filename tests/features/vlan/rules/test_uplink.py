"""What a VlanConfig asks of a bond, read strictly."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api import names
from lanloom.api.bonds import BOND_MODES, UNTUNED
from lanloom.api.harvester import TX_QUEUE_MAX
from lanloom.features.vlan.rules.desired.names import is_link
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.uplink import LONGEST_MIIMON, uplink_mtu
from lanloom.features.vlan.views.plan import annotated
from lanloom.node.steps import EnsureBond
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    node,
    vlan_config,
)
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.strategies import NODE


def one(mtu: str | None = None, nics: tuple[str, ...] = ("eth1",), **uplink: Any) -> NodeNetwork:
    """A cluster network on a node; `mtu` is what the manager wrote on it."""
    cluster = cluster_of(
        [node(NODE), cluster_network("n"), vlan_config("one", "n", nics=nics, uplink=uplink)]
    ).managed()
    networks = tuple(annotated(item, {names.UPLINK_MTU: mtu}) for item in cluster.networks)
    return type(cluster)(nodes=cluster.nodes, networks=networks, configs=cluster.configs).on_node(NODE)[0]


@pytest.mark.parametrize(
    ("written", "stated", "mtu"),
    [
        ("9000", 1400, 9000),
        ("9000", 0, 9000),
        (None, 1400, 1400),
        (None, 0, 1500),
        ("", 1400, 1400),
        ("0", 1400, 1400),
        ("575", 1400, 1400),
        ("9001", 0, 1500),
        ("09000", 0, 1500),
        ("-1", 0, 1500),
        ("9000 ", 0, 1500),
        ("٩٠٠٠", 0, 1500),
        (None, 100, 1500),
    ],
)
def test_the_mtu_is_the_cluster_network_s(written: str | None, stated: int, mtu: int) -> None:
    """What the manager wrote holds, else what the VlanConfig states, else 1500; only what a link could have counts."""
    assert one(written, linkAttributes={"mtu": stated}).mtu == mtu


@given(st.text())
def test_an_mtu_is_read_strictly(text: str) -> None:
    """Any text is the MTU of a link or none."""
    (network,) = cluster_of([cluster_network("n", **{names.UPLINK_MTU: text})]).networks
    mtu = uplink_mtu(network)
    assert mtu == 0 or (576 <= mtu <= 9000 and text == str(mtu))


def test_an_mtu_changes_in_place() -> None:
    """Bond, bridge and NICs get another MTU without being made again, and back."""
    ground = Ground()
    ground.reach((one("1500"),))
    indexes = {name: link.index for name, link in ground.kernel.links.items()}
    for mtu in (9000, 1400, 1500):
        ground.reach((one(str(mtu)),))
        assert {ground.kernel.links[name].mtu for name in ("n-bo", "n-br", "eth1")} == {mtu}
        assert ground.plan((one(str(mtu)),)).empty
    assert {name: link.index for name, link in ground.kernel.links.items()} == indexes


@pytest.mark.parametrize("mode", BOND_MODES)
def test_a_mode_changes_in_place(mode: str) -> None:
    """A bond gets another mode and miimon without being made again, and keeps its NICs."""
    ground = Ground()
    ground.reach((one(),))
    index = ground.kernel.links["n-bo"].index
    wanted = one(bondOptions={"mode": mode, "miimon": 50})
    ground.reach((wanted,))
    bond = ground.kernel.links["n-bo"]
    assert (bond.bond_mode, bond.bond_miimon, bond.index) == (mode, 50, index)
    assert ground.kernel.links["eth1"].master == "n-bo"
    assert ground.plan((wanted,)).empty


def test_queue_and_address_are_set_where_they_are_asked_for() -> None:
    """Without txQLen and hardwareAddr the bond keeps what it has; with them it gets that, in place."""
    ground = Ground()
    ground.reach((one(),))
    before = ground.kernel.links["n-bo"]
    wanted = one(linkAttributes={"txQLen": 500, "hardwareAddr": "02:00:5E:10:00:01"})
    (group,) = ground.plan((wanted,)).steps
    assert group[1] == (
        EnsureBond(
            name="n-bo",
            mode="active-backup",
            miimon=100,
            mtu=1500,
            tx_queue_length=500,
            mac="02:00:5e:10:00:01",
        ),
    )
    ground.reach((wanted,))
    bond = ground.kernel.links["n-bo"]
    assert (bond.tx_queue_length, bond.mac, bond.index) == (500, "02:00:5e:10:00:01", before.index)
    ground.reach((one(),))
    assert ground.kernel.links["n-bo"].tx_queue_length == 500


BY_ARP = {"arpInterval": 500, "arpIpTargets": ["10.9.0.1"], "arpValidate": "all", "miimon": 0}


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "802.3ad", "lacpRate": "fast", "xmitHashPolicy": "layer3+4", "adSelect": "count"},
        {"primary": "eth1"},
        {"primary": "eth1", **BY_ARP},
    ],
)
def test_settings_change_in_place(options: dict[str, Any]) -> None:
    """A bond gets its settings without being made again, keeps its NICs, and is left alone then."""
    ground = Ground()
    ground.reach((one(),))
    index = ground.kernel.links["n-bo"].index
    wanted = one(bondOptions=options)
    assert wanted.uplink_hash != one().uplink_hash
    ground.reach((wanted,))
    bond = ground.kernel.links["n-bo"]
    assert wanted.settings.differing(bond.bond_settings) == {}
    assert (bond.index, ground.kernel.links["eth1"].master) == (index, "n-bo")
    assert ground.plan((wanted,)).empty
    ground.reach((one(bondOptions={"mode": options.get("mode", "active-backup")}),))
    assert ground.kernel.links["n-bo"].bond_miimon == 100


def test_a_primary_nic_that_is_not_in_the_bond_is_no_difference() -> None:
    """A primary NIC that is missing, or that something else uses, keeps the agent from nothing and at nothing."""
    ground = Ground()
    wanted = one(nics=("eth1", "eth77"), bondOptions={"primary": "eth77"})
    ground.reach((wanted,))
    assert wanted.settings.primary == "eth77"
    assert not [
        step for group in ground.plan((wanted,)).steps for step in group[1] if isinstance(step, EnsureBond)
    ]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"lacpRate": "fast"}, "lacpRate"),
        ({"mode": "802.3ad", **BY_ARP}, "arpInterval"),
        ({**BY_ARP, "arpIpTargets": ["fe80::1"]}, "arpIpTargets"),
        ({"arpIpTargets": ["10.9.0.1"]}, "arpIpTargets"),
        ({"xmitHashPolicy": "layer9"}, "xmitHashPolicy"),
    ],
)
def test_settings_that_a_bond_can_t_have_are_left_out(options: dict[str, Any], field: str) -> None:
    """What passed no webhook is left out with a problem that names the field, and the bond is monitored by miimon."""
    network = one(bondOptions=options)
    assert (network.settings, network.miimon) == (UNTUNED, 100)
    assert f"spec.uplink.bondOptions.{field}" in network.uplink_problems[0].message
    assert not network.uplink_problems[0].keep


@pytest.mark.parametrize(
    "text",
    [
        "00:00:00:00:00:00",
        "01:00:5e:00:00:01",
        "02-00-5e-10-00-01",
        "02:00:5e:10:00:01\n",
        "0٢:00:5e:10:00:01",
    ],
)
def test_an_address_that_is_no_nic_s_is_told_and_left_out(text: str) -> None:
    """The bond is built with the address that the kernel gives it."""
    network = one(linkAttributes={"hardwareAddr": text})
    (problem,) = network.uplink_problems
    assert (network.mac, problem.reason, problem.keep) == ("", "InvalidConfig", False)
    assert problem.message.startswith("VlanConfig one: spec.uplink.linkAttributes.hardwareAddr is ")


@pytest.mark.parametrize("miimon", [-1, 0, LONGEST_MIIMON + 1])
def test_a_bond_always_looks_at_its_links(miimon: int) -> None:
    """A miimon that the kernel would not take, or that would never notice a dead link, is 100."""
    assert one(bondOptions={"miimon": miimon}).miimon == 100


@pytest.mark.parametrize(("length", "complaints"), [(-1, 0), (0, 0), (-2, 1), (TX_QUEUE_MAX + 1, 1)])
def test_a_queue_that_can_t_be_is_not_set(length: int, complaints: int) -> None:
    """The queue keeps its length; what is neither a length nor a default is reported."""
    network = one(linkAttributes={"txQLen": length})
    assert network.tx_queue_length is None
    assert len(network.uplink_problems) == complaints


@given(st.lists(st.text(max_size=17), max_size=3))
def test_nics_have_names_of_links(nics: list[str]) -> None:
    """What is not a valid NIC name is left out and reported; the others are used, each once."""
    network = one(nics=tuple(nics))
    assert all(is_link(nic) for nic in network.nics)
    assert len(set(network.nics)) == len(network.nics)
    told = [problem for problem in network.uplink_problems if "is not a valid NIC name" in problem.message]
    assert len(told) == len([nic for nic in nics if not is_link(nic)])


def test_a_bond_without_a_mode_is_not_built() -> None:
    """A mode that there is not leaves a bond that is there alone, with its VLANs."""
    ground = Ground()
    ground.reach((one(),))
    before = ground.picture()
    broken = one(bondOptions={"mode": "round-robin"})
    todo = ground.plan((broken,))
    assert (todo.empty, [item.reason for item in todo.problems["n"]]) == (True, ["InvalidConfig"])
    ground.reach((broken,))
    assert ground.picture() == before
