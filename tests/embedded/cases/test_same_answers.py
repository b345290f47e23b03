"""Every case gets the same answers from the embedded API server as from a real kube-apiserver, field by field."""

import pytest

import tests.embedded.cases.areas  # noqa: F401 - registers the cases
from tests.embedded.cases.kit.compare import compared
from tests.embedded.cases.kit.ground import Ground
from tests.embedded.cases.kit.intended import (
    PAGE,
    Differences,
    known_version,
    page,
    unlisted_and_stale,
)
from tests.embedded.cases.kit.suite import REGISTER


@pytest.mark.realserver
@pytest.mark.parametrize("name", REGISTER)
def test_same_answers(
    name: str, real_ground: Ground, embedded_ground: Ground, listed: Differences, real_version: str
) -> None:
    """Both servers answer the case's requests alike, but for what the list of differences says."""
    case = REGISTER[name]
    found = compared(
        lambda: real_ground.run(case, strict=True), lambda: embedded_ground.run(case, strict=False)
    )
    unlisted, stale = unlisted_and_stale(name, found, listed, known_version(real_version))
    assert not unlisted, "\n".join([case.behaviour, "Not so here:", *map(str, unlisted)])
    assert not stale, f"These listed differences no longer occur; remove them from the list: {stale}"


def test_listed_differences_name_cases(listed: Differences) -> None:
    """The list of differences speaks of cases that exist."""
    api = {case for entry in listed.entries for case in entry.names if not case.startswith("kubectl-")}
    assert api <= REGISTER.keys()


def test_the_page_of_differences_is_up_to_date(listed: Differences) -> None:
    """The page that users read says what the list says."""
    assert PAGE.read_text() == page(listed), "run: python -m tests.embedded.cases.kit.intended"
