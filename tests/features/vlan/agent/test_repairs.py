"""How repairs of a network are paced; what agents do with it on a host is tested with drift."""

from lanloom.features.vlan.agent.repairs import FREE, LONGEST, Repairs
from lanloom.features.vlan.agent.rollback.revisions import NetworkRevision
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.plan import Plan
from lanloom.node.steps import SetUp

_FORM = NetworkRevision(
    NodeNetwork(
        cluster_network="data",
        vlan_config="one",
        bridge="data-br",
        bond="data-bo",
        nics=("eth1",),
        mode="active-backup",
        miimon=100,
        mtu=1500,
    )
)
_TODO = Plan(steps=(("data", (SetUp(link="data-br"),)),))


def test_a_network_that_went_is_forgotten() -> None:
    """What a network cost is remembered while it is there: one that comes back begins again, and none adds up."""
    repairs = Repairs()
    for _ in range(FREE):
        assert repairs.paced(_TODO, (_FORM,), 0.0) == (_TODO, {})
    assert repairs.paced(_TODO, (_FORM,), 0.0)[1].keys() == {"data"}
    repairs.paced(Plan(), (), 0.0)
    assert repairs.paced(_TODO, (_FORM,), 0.0) == (_TODO, {})


def test_a_program_that_never_gives_up_is_answered_as_long() -> None:
    """Against a program that changes a network back for days, the agent repairs it once in each longest pause."""
    repairs, now, done = Repairs(), 0.0, 0
    while now < 2 * 86_400:
        step, waits = repairs.paced(_TODO, (_FORM,), now)
        done += step == _TODO
        now += waits.get("data", 0.0)
    assert done >= 2 * 86_400 / LONGEST
