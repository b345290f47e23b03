"""Whose finalizers are."""

import pytest

from lanloom.runtime.blockers import foreign


@pytest.mark.parametrize(
    ("finalizer", "owner"),
    [
        ("foregroundDeletion", "Kubernetes' garbage collector"),
        ("orphan", "Kubernetes' garbage collector"),
        ("kubevirt.io/virtualMachineControllerFinalize", "probably KubeVirt"),
        ("wrangler.cattle.io/some-controller", "probably a controller of Rancher or Harvester"),
        ("wrangler.cattle.io/harvester-network-vlanconfig-controller", "Harvester's network controller"),
        ("harvesterhci.io/x", "probably Harvester"),
        ("kubernetes.io/pvc-protection", "probably a controller of Kubernetes"),
        ("controller.example.org/x", "probably a controller of controller.example.org"),
        ("x", "unknown"),
        ("notkubernetes.io/x", "probably a controller of notkubernetes.io"),
    ],
)
def test_owners(finalizer: str, owner: str) -> None:
    """An owner is named where the finalizer's name tells; where it only hints, that is said."""
    assert foreign(finalizer).whose == owner


def test_no_remedy_is_to_force_a_finalizer() -> None:
    """The remedy is to see to the controller; it warns of taking the finalizer away by hand."""
    blocker = foreign("example.com/x")
    assert "Do not remove the finalizer manually" in blocker.remedy
    assert blocker.what == "finalizer example.com/x"


def test_finalizers_of_harvesters_controller_have_a_remedy() -> None:
    """If that controller was removed for good, a command removes its finalizers."""
    blocker = foreign("wrangler.cattle.io/harvester-network-manager-node-controller")
    assert "lanloom harvester adopt" in blocker.remedy
