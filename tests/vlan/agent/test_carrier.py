"""What is told of a plan that can be carried out in part only."""

from lanloom.node.fakes import FakeHost, FakeSwitch
from lanloom.node.steps import SetUp
from lanloom.vlan.agent.carrier import Carrier
from lanloom.vlan.rules.plan import Plan
from tests.virtual import run

_FILES = ("data-vlan5.nmconnection", "data-vlan6.nmconnection")


def test_one_failure_hides_no_other() -> None:
    """All that went wrong with a cluster network is told: profiles that can't be removed beside links."""
    host = FakeHost("node1", switch=FakeSwitch(), now=lambda: 0.0)
    for file in _FILES:
        host.plant_file(file, b"[connection]\nid=theirs\n")
    step = Plan(remove_files=_FILES, steps=(("data", (SetUp(link="data-br"),)),))
    failures = run(Carrier(host.host).carry_out(step))
    assert [item.reason for item in failures["data"]] == [*["ProfileNotRemoved"] * 2, "LinkFailed"]
