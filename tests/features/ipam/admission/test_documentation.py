"""`docs/validation.md` says what the webhooks say: its tables are the tests' cases, and its tests are there."""

from typing import Any

import pytest

from tests.features.ipam.admission import (
    test_agents,
    test_nads,
    test_network_shapes,
    test_networks,
    test_nics,
    test_statuses,
    test_wires,
)
from tests.features.ipam.admission.cases import Cases, answer
from tests.harness.refusals import (
    ROOT,
    check_group,
    check_page,
    unshown,
)

GROUPS: tuple[tuple[str, Any, Cases], ...] = (
    ("Networks as such", test_network_shapes.test_networks_that_can_not_be, test_network_shapes.SHAPE_CASES),
    ("Ranges of networks", test_networks.test_ranges_with_host_bits, test_networks.RANGE_CASES),
    ("NADs with addresses", test_nads.test_nads_at_which_no_pod_starts, test_nads.NAD_CASES),
    ("Names of networks", test_networks.test_names_that_are_taken, test_networks.IDENTITY_CASES),
    ("Changes of networks", test_networks.test_changes_that_users_forbid, test_networks.CHANGE_CASES),
    ("NICs as such", test_nics.test_nics_that_can_not_be, test_nics.SHAPE_CASES),
    ("Addresses of NICs", test_nics.test_addresses_that_can_not_be_had, test_nics.ADDRESS_CASES),
    ("Shares of namespaces", test_nics.test_namespaces_that_get_no_addresses, test_nics.SHARE_CASES),
    ("Networks and others on one wire", test_wires.test_networks_and_others_on_a_wire, test_wires.WIRE_CASES),
    ("Owners of NICs", test_nics.test_an_owner_is_for_life, test_nics.OWNER_CASES),
    ("Owners that are there", test_agents.test_owners_that_can_not_be, test_agents.OWNER_CASES),
    ("Statuses", test_statuses.test_statuses_that_are_refused, test_statuses.STATUS_CASES),
    ("Agents", test_agents.test_what_agents_may_not, test_agents.AGENT_CASES),
)
RULES = [
    *(ROOT / "src/lanloom/features/ipam/admission").glob("*.py"),
    *(ROOT / f"src/lanloom/features/ipam/rules/{name}.py" for name in ("shares", "validate")),
]


def test_the_tables_are_what_the_webhooks_say() -> None:
    """The page has every rule with its message, as the tests hold it; LANLOOM_GOLDEN=rewrite writes it again."""
    check_page(GROUPS, "tests/features/ipam/admission/test_documentation.py")


@pytest.mark.parametrize(("title", "test", "cases"), GROUPS, ids=[group[0] for group in GROUPS])
def test_each_message_has_a_test(title: str, test: Any, cases: Cases) -> None:
    """The test that the page names runs just the rules that the page lists, and the messages are really given."""
    check_group(test, cases, answer)


@pytest.mark.slow
def test_each_refusal_is_on_the_page() -> None:
    """There is no way to be refused by a rule that none of the page's cases takes."""
    assert unshown(RULES, GROUPS, answer) == []
