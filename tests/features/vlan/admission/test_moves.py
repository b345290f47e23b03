"""A VlanConfig that moves to another cluster network: a matter of Harvester's, where its controller runs."""

import asyncio

import msgspec
import pytest

from lanloom.api.harvester import VLAN_CONFIGS, VlanConfig
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.rules.admit.uplinks import check_vlan_config
from lanloom.refusals import Denied
from tests.features.vlan.admission.requests import world
from tests.features.vlan.cluster import vlan_config
from tests.harness.admission import request


@pytest.mark.parametrize("coexisting", [False, True])
def test_an_mtu_of_its_own_is_no_way_out_beside_harvester(coexisting: bool) -> None:
    """Harvester's webhook takes 0 for 1500, so it is only advised where that one is not asked."""
    large, small = (
        vlan_config(
            name,
            "bare",
            nodeSelector={"kubernetes.io/hostname": node},
            uplink={"linkAttributes": {"mtu": mtu}, "nics": ["eth9"]},
        )
        for name, node, mtu in (("large", "node1", 9000), ("small", "node2", 1500))
    )
    with pytest.raises(Denied) as caught:
        check_vlan_config(msgspec.convert(small, VlanConfig), None, world(large), coexisting=coexisting)
    assert ("set it to 0 there first" in str(caught.value)) != coexisting


@pytest.mark.parametrize("coexisting", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_vlan_config_moves_beside_harvester_only(coexisting: bool, known: bool) -> None:
    """Harvester's controller makes the uplink again on the other cluster network; Lanloom alone does not.

    It takes its NICs along, also where the webhook has seen it before.
    """
    before, after = (vlan_config("mover", name, nics=["eth9"]) for name in ("cluster-1", "bare"))
    reader = world(before) if known else world()
    admission = VlanAdmission(None, reader, lambda _pod: "", lambda: coexisting)  # type: ignore[arg-type]
    verdict = asyncio.run(admission.validate(request(VLAN_CONFIGS, after, before)))
    assert verdict.allowed == coexisting, verdict.message
    assert coexisting or "spec.clusterNetwork is immutable" in verdict.message
