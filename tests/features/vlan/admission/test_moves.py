"""A VlanConfig that moves to another cluster network: a matter of Harvester's, where its controller runs."""

import asyncio

import pytest

from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.features.vlan.admission import VlanAdmission
from tests.features.vlan.admission.requests import world
from tests.features.vlan.cluster import vlan_config
from tests.harness.admission import request


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_vlan_config_moves_beside_harvester_only(beside: bool, known: bool) -> None:
    """Harvester's controller makes the uplink anew on the other cluster network; Lanloom alone does not.

    It takes its NICs along, also where the webhook has seen it before.
    """
    before, after = (vlan_config("mover", name, nics=["eth9"]) for name in ("cluster-1", "bare"))
    reader = world(before) if known else world()
    admission = VlanAdmission(None, reader, lambda _pod: "", lambda: beside)  # type: ignore[arg-type]
    verdict = asyncio.run(admission.validate(request(VLAN_CONFIGS, after, before)))
    assert verdict.allowed == beside, verdict.message
    assert beside or "spec.clusterNetwork is immutable" in verdict.message
