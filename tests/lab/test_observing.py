"""What an agent shows of itself on a real node, and what the doctor makes of it."""

import json

import pytest

from tests.lab.driver import Lab, eventually
from tests.runtime.metrics.probing import samples

pytestmark = pytest.mark.lab

ASK = """\
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:9810" + sys.argv[1]).read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.read().decode(), end="")
"""


def page(lab: Lab, node: str, path: str) -> str:
    """What the agent of a node answers, whatever the code; nothing while it does not listen."""
    return lab.run("exec", node, "--", "python3", "-c", ASK, path, status=None).stdout


def test_an_agent_says_on_its_node_how_it_fares(lab: Lab) -> None:
    """The agent of a node that is up is ready, and shows the node and itself: NetworkManager, stores, its memory."""
    eventually(lambda: page(lab, "node1", "/readyz") == "ok\n")
    shown = samples(page(lab, "node1", "/metrics"))
    assert shown["lanloom_agent_network_manager_up", frozenset()] == 1
    assert shown["lanloom_agent_link_dumps_total", frozenset()] >= 1
    assert shown["process_resident_memory_bytes", frozenset()] > 0
    synced = [value for (name, _), value in shown.items() if name == "lanloom_informer_synced"]
    assert len(synced) == sum(synced) == 11


def test_the_doctor_finds_a_node_in_order(lab: Lab) -> None:
    """On a node every check is passed, and the agent's own word is among them."""
    eventually(lambda: page(lab, "node1", "/readyz") == "ok\n")
    checks: list[dict[str, str]] = []

    def in_order() -> bool:
        # What takes long on a busy machine the doctor takes for an illness.
        checks[:] = json.loads(lab.on("node1", "lanloom doctor --output json", status=None))
        return {check["result"] for check in checks} == {"ok"}

    eventually(in_order)
    found = {check["name"]: check["found"] for check in checks}
    assert (found["agent"], found["state directory"]) == ("ready", "/var/lib/lanloom")
