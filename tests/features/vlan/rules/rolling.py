"""Members of a rollout, and what was released of them."""

from lanloom.features.vlan.rules.report.readiness import Cause
from lanloom.features.vlan.rules.rollout.policy import (
    RolloutPolicy,
    RolloutState,
)
from lanloom.features.vlan.rules.rollout.stages import (
    Member,
    roll_out,
)

OLD, NEW = "old", "new"
WELL_BEFORE, WELL = Member(live=True, revision=OLD), Member(live=True, revision=NEW)
NEVER_SEEN = Member(live=True, causes=(Cause("NoReport", "its agent has not reported yet"),))
DOWN = Member(live=False, revision=OLD)


def ill(reason: str, revision: str = OLD, message: str = "why") -> Member:
    """A live node that reports this reason."""
    return Member(live=True, revision=revision, causes=(Cause(reason, message),))


def state(*released: str, stopped: str = "") -> RolloutState:
    """A roll-out of the new revision that has released these."""
    return RolloutState(revision=NEW, released=released, stopped=stopped)


def released(policy: RolloutPolicy, previous: RolloutState, members: dict[str, Member]) -> tuple[str, ...]:
    """The nodes that are released after one step."""
    return roll_out(policy, previous, NEW, members)[0].released
