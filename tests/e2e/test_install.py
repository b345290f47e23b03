"""The chart on real nodes, as a new user meets it: installed with helm, and tried with `lanloom check`."""

import base64
import json

import pytest
import trustme

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


def test_doctor_says_why_webhooks_do_not_answer(real: RealCluster) -> None:
    """Nothing fails in a whole cluster; with the CA of another program, the webhooks do, with what to do."""
    checks = json.loads(real.lanloom("doctor", "--cluster-only", "-o", "json"))
    assert [check for check in checks if check["result"] not in ("ok", "unknown")] == []
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    path = "/webhooks/0/clientConfig/caBundle"
    patch = json.dumps([{"op": "replace", "path": path, "value": authority}])
    real.kubectl("patch", "mutatingwebhookconfiguration", "lanloom", "--type=json", "-p", patch)
    with pytest.raises(AssertionError, match=r"x509: .*\n(.*\n)*.*delete secret lanloom-webhook"):
        real.lanloom("doctor", "--cluster-only", "-o", "json")
    # It repairs it within a minute; the other tests need not wait for that.
    real.kubectl("-n", "lanloom-system", "rollout", "restart", "deployment/lanloom-manager")
    real.rolled_out()
