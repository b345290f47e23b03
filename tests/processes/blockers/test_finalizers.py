"""Whose finalizers are."""

import pytest

from lanloom.api import dummy, ipam
from lanloom.runtime.blockers.finalizers import foreign, whose


@pytest.mark.parametrize(
    ("finalizer", "owner"),
    [
        ("foregroundDeletion", "Kubernetes' garbage collector"),
        ("orphan", "Kubernetes' garbage collector"),
        ("foregroundDeleteVirtualMachine", "KubeVirt"),
        ("kubevirt.io/virtualMachineControllerFinalize", "KubeVirt's virt-controller"),
        ("wrangler.cattle.io/some-controller", "probably a controller of Rancher or Harvester"),
        ("harvesterhci.io/x", "probably Harvester"),
        ("kubernetes.io/pvc-protection", "probably a controller of Kubernetes"),
        ("controller.example.org/x", "probably a controller of controller.example.org"),
        ("x", "unknown"),
        ("notkubernetes.io/x", "probably a controller of notkubernetes.io"),
        (dummy.FINALIZER, "Lanloom's manager"),
        (ipam.FINALIZER, "Lanloom's manager"),
    ],
)
def test_owners(finalizer: str, owner: str) -> None:
    """An owner is named where the finalizer's name tells; where it only hints, that is said."""
    assert whose(finalizer) == owner


def test_nobody_is_told_to_force_a_finalizer() -> None:
    """The remedy is to see to the controller; it warns of taking the finalizer away by hand."""
    told = foreign("example.com/x")
    assert "Do not take the finalizer away by hand" in told.remedy
    assert told.what == "finalizer example.com/x"
