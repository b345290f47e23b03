"""What a cluster's objects make of its nodes: one folder of tests/golden/vlan per case."""

import pytest
from msgspec.structs import replace

from tests.features.vlan.rules.golden import REWRITE, Case, cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.folder.name)
def test_a_node_gets_what_its_cluster_says(case: Case) -> None:
    """Links, profiles and problems of each node are those that the case's folder holds."""
    actual = case.actual()
    if REWRITE:
        case.rewrite(actual)
    assert actual == case.expected()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.folder.name)
def test_equal_objects_give_equal_bytes(case: Case) -> None:
    """The same objects give the same files and links each time, whatever the order in which they are listed."""
    turned = replace(case, objects=case.objects[::-1])
    assert turned.actual() == case.actual()
