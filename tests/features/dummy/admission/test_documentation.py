"""`docs/validation.md` says what the webhooks say: its tables are the tests' cases, and its tests are there."""

from typing import Any

import pytest

from tests.features.dummy.admission import test_nads, test_networks, test_references
from tests.features.dummy.admission.cases import Cases, answer
from tests.harness.refusals import (
    ROOT,
    check_group,
    check_page,
    unshown,
)

GROUPS: tuple[tuple[str, Any, Cases], ...] = (
    ("Isolated networks", test_networks.test_networks_that_can_not_be, test_networks.NETWORK_CASES),
    ("Changes of isolated networks", test_networks.test_changes_that_can_not_be, test_networks.CHANGE_CASES),
    (
        "Uplinks of isolated networks",
        test_networks.test_isolated_networks_stay_isolated,
        test_networks.UPLINK_CASES,
    ),
    ("NADs of isolated networks", test_nads.test_nads_that_can_not_be, test_nads.NAD_CASES),
    ("Deletion of their NADs", test_nads.test_nads_that_stay, test_nads.DELETION_CASES),
    (
        "References to isolated networks",
        test_references.test_references_that_are_refused,
        test_references.REFERENCE_CASES,
    ),
)
RULES = [ROOT / f"src/lanloom/{name}.py" for name in ("features/dummy/rules/admit", "nads/guard")]


def test_the_tables_are_what_the_webhooks_say() -> None:
    """The page has every rule with its message, as the tests hold it; LANLOOM_GOLDEN=rewrite writes it again."""
    check_page(GROUPS, "tests/features/dummy/admission/test_documentation.py")


@pytest.mark.parametrize(("title", "test", "cases"), GROUPS, ids=[group[0] for group in GROUPS])
def test_each_message_has_a_test(title: str, test: Any, cases: Cases) -> None:
    """The test that the page names runs just the rules that the page lists, and the messages are really given."""
    check_group(test, cases, answer)


@pytest.mark.slow
def test_each_refusal_is_on_the_page() -> None:
    """There is no way to be refused by a rule that none of the page's cases takes."""
    assert unshown(RULES, GROUPS, answer) == []
