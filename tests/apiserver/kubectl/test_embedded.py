"""What kubectl says of the embedded server alone: its own kinds, its refusals, its validation."""

import pytest

from tests.apiserver.cases.kit.objects import config_map, widget
from tests.apiserver.kubectl.runner import Desk, Kubectl, Program

pytestmark = pytest.mark.slow


@pytest.fixture
def k(program: Program, embedded_desk: Desk, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl in a namespace of the test's own."""
    return embedded_desk.kubectl(program, request.node.originalname)


EXPLAINED = {
    "clusternetworks": "A network of uplinks",
    "vc.spec.uplink": "linkAttributes",
    "vlanstatuses.status.interfaces": "vlanId",
    "net-attach-def.spec": "config",
}


@pytest.mark.parametrize("field", EXPLAINED)
def test_our_kinds_are_explained(k: Kubectl, field: str) -> None:
    """kubectl explain tells what the fields of Lanloom's kinds mean."""
    assert EXPLAINED[field] in k("explain", field)


def test_server_side_apply_is_refused(k: Kubectl) -> None:
    """Server-side apply is refused with words that say what to do instead."""
    k("apply", "--server-side", "-f", k.file("w.yaml", widget("a")))
    assert k.last.code == 1
    assert "use kubectl apply without --server-side" in k.last.error


def test_unknown_fields_are_refused(k: Kubectl) -> None:
    """kubectl refuses a manifest with a field that doesn't exist, and names it."""
    k("create", "-f", k.file("c.yaml", {**config_map("a"), "nonsense": 1}))
    assert k.last.code == 1
    assert "nonsense" in k.last.error


def test_values_of_a_wrong_type_are_refused(k: Kubectl) -> None:
    """kubectl refuses a manifest with a value of a wrong type, and names the field."""
    k("create", "-f", k.file("w.yaml", widget("a", {"size": "large"})))
    assert k.last.code == 1
    assert "spec.size" in k.last.error
