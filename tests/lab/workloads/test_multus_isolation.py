"""Namespace isolation of the lab's stand-in of Multus, which nodes' agents read as that of Multus."""

import pytest

from lanloom.api.meta import Key
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation, isolation_in
from lanloom_lab.workloads.multus import Unreadable, check_isolation
from lanloom_lab.workloads.multusfiles import configuration

ISOLATED = NamespaceIsolation(enabled=True)


@pytest.mark.parametrize(
    "isolation",
    [NO_ISOLATION, ISOLATED, NamespaceIsolation(enabled=True, global_namespaces=frozenset("ab"))],
)
def test_the_file_says_what_is_so(isolation: NamespaceIsolation) -> None:
    """What agents read on a node is what its pods are judged by."""
    assert isolation_in(configuration(isolation).encode()) == isolation


def test_a_pod_of_another_namespace() -> None:
    """A pod's network fails as with Multus, which names both namespaces and not the NAD."""
    check_isolation(NO_ISOLATION, "t1", Key("secret", "hidden"))
    check_isolation(ISOLATED, "t1", Key("default", "red"))
    with pytest.raises(Unreadable, match=r"in namespace t1, and its annotation names a NAD of secret$"):
        check_isolation(ISOLATED, "t1", Key("secret", "hidden"))
