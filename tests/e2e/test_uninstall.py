"""The end of an installation, as the page on operations says it: last, because nothing is left after it."""

import re
from pathlib import Path

import pytest

from tests.e2e.cluster import RealCluster
from tests.harness.nodes.node import PATIENCE, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs/operations.md"
WAIT = f"--timeout={PATIENCE:.0f}s"


def test_uninstallation_leaves_nothing(real: RealCluster) -> None:
    """The steps of the page remove every object, link and namespace, and its last lines what is on the disks."""
    real.kubectl("-n", "default", "delete", "deployment,pods", "--all", WAIT)
    real.kubectl(
        "-n", "lanloom-system", "create", "configmap", "lanloom-dummy", "--from-literal=default=false"
    )
    real.kubectl("delete", "dcn", "--all", WAIT)
    real.kubectl("delete", "nics.ipam.lanloom.io", "-A", "--all", WAIT)
    real.kubectl("delete", "networks.ipam.lanloom.io", "--all", WAIT)
    real.kubectl("delete", "lans", "-A", "--all", WAIT)
    real.helm.uninstall()
    real.kubectl("delete", "namespace", "lanloom-system", "lanloom-bridges", "--ignore-not-found", WAIT)

    def left() -> list[str]:
        kinds = "clusterroles,clusterrolebindings,crds,validatingwebhookconfigurations"
        lines = real.kubectl("get", kinds, "-o", "name").splitlines()
        return [line for line in lines if "lanloom" in line or "dummyclusternetworks" in line]

    wait_until(lambda: not left(), lambda: f"still there: {left()}")  # definitions wait for their objects
    for each in real.nodes.values():
        links = each.node.enclosure.run("ip", "-oneline", "link")
        assert "alias lanloom" not in links and "lab-br" not in links, links
        assert "office" not in each.node.enclosure.run("ip", "netns", "list")
        each.node.enclosure.run("bash", "-ec", cleaning())
        for place in (
            "/var/lib/lanloom",
            "/run/lanloom",
            "/opt/cni/bin/lanloom-ipam",
            "/opt/cni/bin/k8slanveth",
        ):
            assert not each.node.enclosure.root(place).exists()


def cleaning() -> str:
    """The lines of the page that clean up a node by hand, without those of NetworkManager, which is not here."""
    text = PAGE.read_text().partition("To clean up a node by hand:")[2]
    block = re.match(r"\n\n((?:    .*\n)+)", text)
    assert block is not None
    lines = [line.strip() for line in block[1].splitlines()]
    return "\n".join(line for line in lines if "nmc" not in line and "NetworkManager" not in line)
