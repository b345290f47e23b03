"""kubectl works against the embedded API server as it does against a real one: same output, same exit codes."""

import pytest

import tests.embedded.kubectl.scripts  # noqa: F401 - registers the cases
from tests.embedded.cases.kit.compare import compared
from tests.embedded.cases.kit.intended import Differences, known_version, unlisted_and_stale
from tests.embedded.cases.kit.suite import KUBECTL_REGISTER
from tests.embedded.kubectl.runner import Desk, Program


@pytest.mark.realserver
@pytest.mark.slow
@pytest.mark.parametrize("name", KUBECTL_REGISTER)
def test_same_output(
    name: str,
    program: Program,
    real_desk: Desk,
    embedded_desk: Desk,
    listed: Differences,
    real_version: str,
) -> None:
    """kubectl says and returns the same with both servers, but for what the list of differences says."""
    case = KUBECTL_REGISTER[name]
    found = compared(
        lambda: real_desk.run(case, program, strict=program.name == "debian"),
        lambda: embedded_desk.run(case, program, strict=False),
    )
    unlisted, stale = unlisted_and_stale(
        f"kubectl-{program.name}/{name}", found, listed, known_version(real_version)
    )
    assert not unlisted, "\n".join([case.behaviour, "Not so here:", *map(str, unlisted)])
    assert not stale, f"These listed differences no longer occur; remove them from the list: {stale}"


def test_listed_differences_name_cases(listed: Differences) -> None:
    """The list of differences speaks of cases of kubectl that exist."""
    named = {case for entry in listed.entries for case in entry.names if case.startswith("kubectl-")}
    assert {case.partition("/")[2] for case in named} <= KUBECTL_REGISTER.keys()
