"""What is reported of a plan that can be carried out in part only."""

from lanloom.features.vlan.agent.apply import PlanExecutor
from lanloom.features.vlan.rules.desired.plan import Plan
from lanloom.node.steps import SetUp
from tests.fakes import FakeHost, FakeSwitch
from tests.harness.virtual import run

_FILES = ("data-vlan5.nmconnection", "data-vlan6.nmconnection")


def test_one_failure_hides_no_other() -> None:
    """All that went wrong with a cluster network is reported: profiles that can't be removed, and links."""
    host = FakeHost("node1", switch=FakeSwitch(), now=lambda: 0.0)
    for file in _FILES:
        host.plant_file(file, b"[connection]\nid=theirs\n")
    step = Plan(remove_files=_FILES, steps=(("data", (SetUp(link="data-br"),)),))
    failures = run(PlanExecutor(host.host).execute(step))
    assert [item.reason for item in failures["data"]] == [*["ProfileNotRemoved"] * 2, "LinkFailed"]
