"""The chart on real nodes, as a new user meets it: installed with helm, and tried with `lanloom check`."""

import json

import pytest

from tests.e2e.cluster import UNDERLAY, RealCluster

pytestmark = [pytest.mark.e2e, pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_chart_brings_everything_up(real: RealCluster) -> None:
    """Managers and agents become ready, the API server reaches their webhooks, and networks carry frames."""
    real.helm.install(real.values)
    real.rolled_out()
    said = json.loads(real.lanloom("check", "--underlay", UNDERLAY, "--timeout", "200", "-o", "json"))
    # No feature vlan: no NetworkManager is here.
    assert {item["name"]: item["result"] for item in said} == {
        "vlan": "skipped",
        "lan": "ok",
        "ipam": "ok",
        "isolated": "ok",
    }
