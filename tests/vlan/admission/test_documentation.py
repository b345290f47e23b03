"""`docs/validation.md` says what the webhooks say: its tables are the tests' cases, and its tests are there."""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.vlan.admission import (
    test_addresses,
    test_cluster_networks,
    test_networks,
    test_reports,
    test_routing,
    test_uplinks,
    test_vms,
)
from tests.vlan.admission.cases import Case, Cases, answer

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/validation.md"
BEGIN, END = "<!-- written by tests/vlan/admission/test_documentation.py -->", "<!-- end -->"
HERE = "tests/vlan/admission"

GROUPS: tuple[tuple[str, Callable[[Case], None], Cases], ...] = (
    ("Networks", test_networks.test_networks_that_are_refused, test_networks.NETWORK_CASES),
    ("Node addresses as such", test_addresses.test_annotations_that_are_refused, test_addresses.WORD_CASES),
    (
        "Node addresses in their cluster",
        test_addresses.test_addresses_that_do_not_fit_the_cluster,
        test_addresses.CLUSTER_CASES,
    ),
    ("Gateway, routes and DNS", test_routing.test_routing_that_is_refused, test_routing.ROUTING_CASES),
    ("Networks that VMs use", test_vms.test_networks_in_use_stay, test_vms.USED_CASES),
    ("Overlay networks", test_vms.test_overlay_networks_keep_their_ground, test_vms.OVERLAY_CASES),
    ("Uplinks that VMs use", test_vms.test_uplinks_in_use_stay, test_vms.UPLINK_CASES),
    ("Uplinks as such", test_uplinks.test_uplinks_that_are_refused, test_uplinks.ATTRIBUTE_CASES),
    ("Uplinks beside others", test_uplinks.test_uplinks_that_contradict_others, test_uplinks.PEER_CASES),
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
    ("Reports", test_reports.test_reports_that_are_refused, test_reports.REPORT_CASES),
)


def written() -> str:
    """The part of the page that follows from the cases."""
    parts = []
    for title, test, cases in GROUPS:
        file = Path(test.__code__.co_filename).name
        parts.append(f"### {title}\n\n`{HERE}/{file}::{test.__name__}[rule]`\n")
        rows = "\n".join(f"| {rule} | {_cell(case.message)} |" for rule, case in cases.items())
        parts.append(f"| rule | message |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """Text as it is, in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def test_the_tables_are_what_the_webhooks_say() -> None:
    """The page has every rule with its message, as the tests hold it; LANLOOM_GOLDEN=rewrite writes it anew."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    current, _, tail = rest.partition(END)
    wanted = f"\n\n{written()}\n"
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        PAGE.write_text(f"{head}{BEGIN}{wanted}{END}{tail}")
    else:
        assert current == wanted


@pytest.mark.parametrize(("title", "test", "cases"), GROUPS, ids=[group[0] for group in GROUPS])
def test_each_message_has_a_test(title: str, test: Any, cases: Cases) -> None:
    """The test that the page names runs just the rules that the page lists, and the messages are really given."""
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    assert dict(zip(mark.kwargs["ids"], mark.args[1], strict=True)) == dict(cases), title
    assert [answer(case) for case in cases.values()] == [case.message for case in cases.values()]


def test_each_test_that_the_page_names_is_there() -> None:
    """Whatever the page names as `file::test` is a test."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)", PAGE.read_text())
    assert len(named) > len(GROUPS)
    assert [name for name in named if name[1] not in _tests(name[0])] == []


@cache
def _tests(file: str) -> frozenset[str]:
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


PARSERS = [ROOT / f"src/lanloom/api/{name}.py" for name in ("nadconfig", "routing", "uplinks")]
RULES = [*(ROOT / "src/lanloom/vlan/rules").glob("admit_*.py"), *PARSERS]


def test_each_refusal_is_on_the_page() -> None:
    """There is no way to be refused by a rule that none of the page's cases takes."""
    raised = _lines_run_by(lambda: [answer(case) for _, _, cases in GROUPS for case in cases.values()])
    assert sorted(set(_refusals()) - raised) == []


def _refusals() -> Iterator[tuple[str, int]]:
    """Where a rule refuses somebody: file and line."""
    for file in RULES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None and "from None" not in ast.unparse(node):
                yield file.name, node.lineno


def _lines_run_by(action: Callable[[], object]) -> set[tuple[str, int]]:
    """The lines of the rules that an action runs."""
    files = {str(file): file.name for file in RULES}
    found: set[tuple[str, int]] = set()

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        name = files.get(frame.f_code.co_filename)
        if name is None:
            return None
        found.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return found
