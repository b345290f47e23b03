"""`docs/validation.md` says what the webhooks say: its tables are the tests' cases, and its tests are there."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.features.vlan.admission import (
    test_addresses,
    test_cluster_networks,
    test_configs,
    test_host_networks,
    test_namespaces,
    test_networks,
    test_reports,
    test_routing,
    test_uplinks,
    test_vms,
)
from tests.features.vlan.admission.cases import Case, Cases, answer
from tests.harness.refusals import (
    PAGE,
    ROOT,
    check_group,
    check_page,
    named_tests,
    unshown,
)

GROUPS: tuple[tuple[str, Callable[[Case], None], Cases], ...] = (
    ("Networks", test_networks.test_networks_that_are_refused, test_networks.NETWORK_CASES),
    (
        "Configurations that are read in two ways",
        test_configs.test_configurations_that_are_refused,
        test_configs.CONFIG_CASES,
    ),
    ("Node addresses as such", test_addresses.test_annotations_that_are_refused, test_addresses.WORD_CASES),
    (
        "Node addresses in their cluster",
        test_addresses.test_addresses_that_do_not_fit_the_cluster,
        test_addresses.CLUSTER_CASES,
    ),
    ("Gateway, routes and DNS", test_routing.test_routing_that_is_refused, test_routing.ROUTING_CASES),
    (
        "Whose networks may change nodes",
        test_namespaces.test_namespaces_that_are_refused,
        test_namespaces.NAMESPACE_CASES,
    ),
    ("Networks that VMs use", test_vms.test_networks_in_use_stay, test_vms.USED_CASES),
    ("Overlay networks", test_vms.test_overlay_networks_keep_their_ground, test_vms.OVERLAY_CASES),
    ("Uplinks that VMs use", test_vms.test_uplinks_in_use_stay, test_vms.UPLINK_CASES),
    ("Uplinks as such", test_uplinks.test_uplinks_that_are_refused, test_uplinks.ATTRIBUTE_CASES),
    ("Uplinks next to others", test_uplinks.test_uplinks_that_contradict_others, test_uplinks.PEER_CASES),
    (
        "Names of cluster networks",
        test_cluster_networks.test_names_that_are_refused,
        test_cluster_networks.NAME_CASES,
    ),
    (
        "Cluster networks in use",
        test_cluster_networks.test_cluster_networks_in_use_stay,
        test_cluster_networks.DELETION_CASES,
    ),
    (
        "Roll-out policies",
        test_cluster_networks.test_policies_that_are_refused,
        test_cluster_networks.ROLLOUT_CASES,
    ),
    (
        "Links given to Lanloom",
        test_cluster_networks.test_adoption_grants,
        test_cluster_networks.GRANT_CASES,
    ),
    (
        "MTUs of cluster networks",
        test_cluster_networks.test_mtus_that_are_refused,
        test_cluster_networks.MTU_CASES,
    ),
    (
        "Node addresses of Harvester",
        test_host_networks.test_host_networks_that_are_refused,
        test_host_networks.HOST_NETWORK_CASES,
    ),
    ("Reports", test_reports.test_reports_that_are_refused, test_reports.REPORT_CASES),
)


def test_the_tables_are_what_the_webhooks_say() -> None:
    """The page has every rule with its message, as the tests hold it; LANLOOM_GOLDEN=rewrite writes it again."""
    check_page(GROUPS, "tests/features/vlan/admission/test_documentation.py")


@pytest.mark.parametrize(("title", "test", "cases"), GROUPS, ids=[group[0] for group in GROUPS])
def test_each_message_has_a_test(title: str, test: Any, cases: Cases) -> None:
    """The test that the page names runs just the rules that the page lists, and the messages are really given."""
    check_group(test, cases, answer)


def test_each_test_that_the_page_names_is_there() -> None:
    """Whatever the page names as `file::test` is a test."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)", PAGE.read_text())
    assert len(named) > len(GROUPS)
    assert [name for name in named if name[1] not in named_tests(name[0])] == []


PARSERS = [ROOT / f"src/lanloom/api/{name}.py" for name in ("harvester", "nadconfig", "routing")]
OTHER_PAGE = "lans"
"""Rules that are asked by requests for LANs, whose page has what they refuse."""

ADMIT = (ROOT / "src/lanloom/features/vlan/rules/admit").glob("*.py")
RULES = [*(path for path in ADMIT if path.stem != OTHER_PAGE), *PARSERS]


def test_each_refusal_is_on_the_page() -> None:
    """There is no way to be refused by a rule that none of the page's cases takes."""
    assert unshown(RULES, GROUPS, answer) == []
