"""The embedded API server answers every recorded case as a current kube-apiserver did, field by field."""

import pytest

import tests.apiserver.cases.areas  # noqa: F401 - registers the cases
from tests.apiserver.cases.kit.compare import differences
from tests.apiserver.cases.kit.ground import Ground
from tests.apiserver.cases.kit.intended import CURRENT, Differences, judge
from tests.apiserver.cases.kit.normal import normalise
from tests.apiserver.cases.kit.recorded import filled, read, timeless
from tests.apiserver.cases.kit.suite import REGISTER

RECORDED = read()


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_answers(name: str, replaying_ground: Ground, listed: Differences) -> None:
    """The embedded server answers the case's requests as recorded, but for what the list of differences says."""
    case = REGISTER[name]
    transcript = timeless(normalise(replaying_ground.run(case, strict=False)))
    found = differences(filled(RECORDED[name], transcript), transcript)
    unlisted, stale = judge(name, found, listed, CURRENT)
    assert not unlisted, "\n".join([case.behaviour, "Not so here:", *map(str, unlisted)])
    assert not stale, f"These listed differences no longer occur; remove them from the list: {stale}"
