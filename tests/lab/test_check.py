"""`lanloom check` on a lab: pods that really look for each other, on networks that really carry frames."""

import json

import pytest

from lanloom.runtime.trials import NAMESPACE
from lanloom_lab.plan import IMAGE
from tests.lab.driver import Lab, eventually
from tests.lab.objects import example

pytestmark = pytest.mark.lab

OPTIONS = ("--image", IMAGE, "--underlay", "mgmt-br.2021", "-o", "json")


def test_the_networks_of_a_lab_are_connected(clean: Lab) -> None:
    """LANs, isolated networks and addresses of pods and nodes pass, and nothing of the check is left."""
    clean.kubectl("apply", "-f", example("cluster-2.yaml"))
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-2", "--timeout=300s")
    clean.kubectl("apply", "-f", example("vlan2013-static.yaml"))
    states = "jsonpath={.items[*].status.interfaces[*].state}"
    eventually(lambda: clean.kubectl("get", "cnn", "-o", states).split() == ["Ready", "Ready"])
    said = clean.lanloom("check", *OPTIONS)
    found = json.loads(said[said.index("[") :])
    assert {item["name"]: item["result"] for item in found} == dict.fromkeys(
        ("vlan", "ipam", "isolated", "lan"), "ok"
    ), said
    names = clean.kubectl("get", "namespaces,lans,dcn,ipnet,net-attach-def", "--all-namespaces", "-o", "name")
    assert NAMESPACE not in names
