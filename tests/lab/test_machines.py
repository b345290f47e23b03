"""Virtual machines of the lab: real guests that boot, talk, and move to another node."""

from collections.abc import Iterator

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.isolated import NAD, Isolated, isolated, network
from tests.lab.machines import Machine, remove_machines

__all__ = ["isolated", "network"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture
def machine(network: Isolated) -> Iterator[Machine]:
    """A machine on the isolated network, which has no name yet; afterwards without any machine."""
    try:
        yield Machine(network.lab, "vm1")
    finally:
        remove_machines(network.lab)


def test_a_guest_moves(machine: Machine, network: Isolated) -> None:
    """A guest on an isolated network reaches a pod of its node, and after its migration one of the other node."""
    machine.create(NAD, address="10.77.0.200/24")
    before, node = machine.identity(), machine.node
    eventually(lambda: machine.reported_macs()[:1] == [before.mac])
    (here,) = network.add_pods(here=node).values()
    eventually(lambda: machine.reaches(here))
    machine.migrate()
    assert machine.node != node
    (there,) = network.add_pods(there=machine.node).values()
    eventually(lambda: machine.reaches(there))
    assert machine.identity() == before
    assert not machine.reaches(here)
    eventually(lambda: machine.pods() == [f"pod/{machine.pod}"])


def test_a_guest_that_powers_off(machine: Machine) -> None:
    """A guest that powers off starts again, as another boot; one whose shell refuses a command goes on."""
    machine.create(NAD)
    before = machine.identity()
    assert machine.attempt('echo "') is None
    machine.lab.run("guest", machine.name, "--", "exit 3", status=3)
    assert machine.identity() == before
    machine.attempt("poweroff -f")
    eventually(lambda: machine.attempt("boot_id") not in (None, f"{before.boot_id}\n"), timeout=240)
    assert machine.identity().mac == before.mac


def test_machines_end_with_the_lab(own_lab: Lab) -> None:
    """Nothing of a guest runs on when its lab has ended."""
    own_lab.run("up", "--nodes", "1")
    machine = Machine(own_lab, "vm1")
    own_lab.apply(
        {
            "apiVersion": "network.harvester.io/v1alpha1",
            "kind": "DummyClusterNetwork",
            "metadata": {"name": "iso"},
            "spec": {"bridgeName": "iso-br", "nadName": NAD, "nadNamespace": "default"},
        }
    )
    machine.create(NAD)
    own_lab.run("down")
    eventually(lambda: not own_lab.processes())
