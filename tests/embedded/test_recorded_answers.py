"""The embedded API server answers every recorded case as a current kube-apiserver did, field by field."""

import pytest

import tests.embedded.cases.areas  # noqa: F401 - registers the cases
from tests.embedded.cases.kit.compare import differences
from tests.embedded.cases.kit.ground import Ground
from tests.embedded.cases.kit.intended import CURRENT, Differences, unlisted_and_stale
from tests.embedded.cases.kit.normal import normalise
from tests.embedded.cases.kit.recorded import filled, read, timeless
from tests.embedded.cases.kit.suite import REGISTER

RECORDED = read()


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_answers(name: str, replaying_ground: Ground, listed: Differences) -> None:
    """The embedded server answers the case's requests as recorded, but for what the list of differences says."""
    case = REGISTER[name]
    transcript = timeless(normalise(replaying_ground.run(case, strict=False)))
    found = differences(filled(RECORDED[name], transcript), transcript)
    unlisted, stale = unlisted_and_stale(name, found, listed, CURRENT)
    assert not unlisted, "\n".join([case.behaviour, "Not so here:", *map(str, unlisted)])
    assert not stale, f"These listed differences no longer occur; remove them from the list: {stale}"
