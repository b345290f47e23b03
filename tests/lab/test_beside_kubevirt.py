"""Live update alongside each release of KubeVirt, with real guests, in one lab that plays one release after the other.

What a guest must not notice is looked at in the guest. KubeVirt must have no reason to act for a move in place: no
migration, no other pod, and no restart but where one is due.
"""

import json
from collections.abc import Iterator

import pytest

from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.machines import Identity, Machine, remove_machines
from tests.lab.objects import example
from tests.lab.test_live_update import LONG, SECOND, check_place, move, start, vlan

pytestmark = [pytest.mark.lab, pytest.mark.slow]

BOTH = ("--methods", "LiveMigrate,Evict")

WAITS = "UntilRestart"
"""The state of a machine whose NIC is on a network that KubeVirt does not know of before a restart."""


@pytest.fixture(scope="module")
def vlans(lab: Lab) -> Iterator[Lab]:
    """The lab with the NADs vlan2012 and vlan2013; afterwards it plays no KubeVirt."""
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    lab.apply(vlan("vlan2012", 2012), vlan("vlan2013", 2013))
    try:
        yield lab
    finally:
        lab.run("kubevirt", "none")
        remove_machines(lab)
        remove_networks(lab)


@pytest.fixture(scope="module")
def fixed(vlans: Lab) -> tuple[Machine, Identity]:
    """A machine that can't migrate, and what must stay of it through all releases."""
    machine = Machine(vlans, "fixed")
    return machine, start(machine, migratable=False)


def play(lab: Lab, release: str, *methods: str) -> None:
    """The lab plays a release from now on, and Lanloom knows."""
    lab.run("kubevirt", release, *methods)
    mode = {"none": "Mode full", "1.7": "Mode restart", "1.8": "Mode restart"}.get(release, "Mode companion")
    eventually(lambda: mode in lab.lanloom("vm", "list"))


def check_untouched(machine: Machine, before: Identity, pods: list[str]) -> None:
    """The guest has noticed nothing, and KubeVirt wants nothing of the machine."""
    assert machine.identity() == before
    assert machine.pods() == pods
    assert machine.migrations() == {}
    eventually(lambda: not machine.condition("vmi", "MigrationRequired"))
    assert not machine.condition("vm", "RestartRequired")


@pytest.mark.parametrize("release", ["none", "1.8+gate", "1.9"])
def test_a_move_in_place(fixed: tuple[Machine, Identity], release: str) -> None:
    """A machine that can't migrate moves in place, there and back, and KubeVirt finds nothing to do."""
    machine, before = fixed
    play(machine.lab, release)
    pods = machine.pods()
    for nad in ("vlan2013", "vlan2012"):
        move(machine, nad)
        check_place(machine, nad)
        check_untouched(machine, before, pods)
        assert machine.attached("net0") == f"default/{nad}"
        assert machine.instance()["spec"]["networks"][0]["multus"]["networkName"] in (nad, f"default/{nad}")


def test_the_spec_of_an_instance(fixed: tuple[Machine, Identity]) -> None:
    """Alongside KubeVirt, its webhook refuses changes of an instance's spec by others; without it they are stored."""
    machine, _ = fixed
    play(machine.lab, "1.9")
    patch = '[{"op": "replace", "path": "/spec/networks/0/multus/networkName", "value": "vlan2013"}]'
    words = ("patch", "vmi", machine.name, "--type=json", f"--patch={patch}", "--dry-run=server")
    eventually(lambda: "update of VMI object is restricted" in machine.lab.kubectl(*words, fails=None))
    play(machine.lab, "none")
    eventually(
        lambda: "virt-api-validator" not in machine.lab.kubectl("get", "validatingwebhookconfigurations")
    )
    machine.lab.kubectl(*words)


def test_what_a_machine_was_started_from(fixed: tuple[Machine, Identity]) -> None:
    """A ControllerRevision keeps the machine as it was at its start."""
    machine, _ = fixed
    name = machine.instance()["status"]["virtualMachineRevisionName"]
    kept = json.loads(machine.lab.kubectl("get", "controllerrevision", name, "--output=json"))
    assert kept["metadata"]["ownerReferences"][0]["name"] == machine.name
    assert kept["data"]["spec"]["template"]["spec"]["networks"][0]["multus"]["networkName"] == "vlan2012"


def test_a_port_that_an_edit_left_behind(fixed: tuple[Machine, Identity]) -> None:
    """Alongside 1.9, an edit leaves the port of a machine that can't migrate behind, and a move in place heals that."""
    machine, before = fixed
    play(machine.lab, "1.9")
    pods = machine.pods()
    machine.edit(net0="vlan2013")
    eventually(lambda: machine.condition("vmi", "MigrationRequired").get("status") == "True")
    check_place(machine, "vlan2012")
    move(machine, "vlan2013")
    check_place(machine, "vlan2013")
    check_untouched(machine, before, pods)
    move(machine, "vlan2012")
    check_place(machine, "vlan2012")


@pytest.mark.parametrize("release", ["1.7", "1.8", "main"])
def test_until_the_restart(fixed: tuple[Machine, Identity], release: str) -> None:
    """Where no instance follows, a move is refused or undone; with --until-restart, it lasts, and can be taken back."""
    machine, before = fixed
    play(machine.lab, release)
    pods = machine.pods()
    words = ("vm", "move", machine.name, "net0", "--to", "vlan2013", "--policy", "in-place", "--wait")
    assert "moved in place" not in machine.lab.lanloom(*words)
    eventually(lambda: not machine.condition("vm", "RestartRequired"))
    check_untouched(machine, before, pods)
    printed = machine.lab.lanloom(*words, "--until-restart")
    assert "until the machine is restarted" in " ".join(printed.split()), printed
    check_place(machine, "vlan2013")
    assert WAITS in machine.lab.lanloom("vm", "list")
    eventually(lambda: machine.condition("vm", "RestartRequired"))
    assert machine.attached("net0") == "default/vlan2012"
    assert not machine.condition("vmi", "MigrationRequired")
    machine.lab.kubectl("delete", "nswap", "--all", "--namespace=default")
    check_place(machine, "vlan2012")
    eventually(lambda: not machine.condition("vm", "RestartRequired"))
    check_untouched(machine, before, pods)


def test_evict(fixed: tuple[Machine, Identity]) -> None:
    """With Evict, a machine moves only by force, and is not shut down even then."""
    machine, before = fixed
    play(machine.lab, "1.9", *BOTH)
    pods = machine.pods()
    words = ("vm", "move", machine.name, "net0", "--policy", "in-place", "--wait")
    assert "moved" not in machine.lab.lanloom(*words, "--to", "vlan2013")
    for nad in ("vlan2013", "vlan2012"):
        assert "moved in place" in machine.lab.lanloom(*words, "--to", nad, "--force")
        check_place(machine, nad)
    check_untouched(machine, before, pods)


def test_a_restart(fixed: tuple[Machine, Identity]) -> None:
    """A machine whose NIC is on a network until its restart starts there, and the NetworkSwap is over."""
    machine, _ = fixed
    play(machine.lab, "main")
    words = ("vm", "move", machine.name, "net0", "--to", "vlan2013", "--policy", "in-place", "--wait")
    assert "until the machine" in " ".join(machine.lab.lanloom(*words, "--until-restart").split())
    machine.lab.kubectl("delete", "vmi", machine.name, "--timeout=300s")
    eventually(lambda: machine.attempt("true") is not None, timeout=LONG)
    machine.run(f"ip address add {SECOND}.50/24 dev eth0")
    check_place(machine, "vlan2013")
    assert machine.attached("net0") == "default/vlan2013"
    eventually(lambda: not machine.condition("vm", "RestartRequired"))
    eventually(lambda: machine.name in (listed := machine.lab.lanloom("vm", "list")) and WAITS not in listed)


def test_kubevirt_migrates(vlans: Lab) -> None:
    """After 1.9, a machine that can migrate moves in place without a migration, and by one for an edit."""
    play(vlans, "main")
    machine = Machine(vlans, "movable")
    try:
        before = start(machine)
        pods = machine.pods()
        move(machine, "vlan2013")
        check_place(machine, "vlan2013")
        check_untouched(machine, before, pods)
        machine.edit(net0="vlan2012")
        eventually(lambda: machine.attached("net0") == "default/vlan2012", timeout=LONG)
        check_place(machine, "vlan2012")
        assert machine.identity() == before
        eventually(lambda: list(machine.migrations().values()) == ["Succeeded"])
        (migration,) = machine.history()
        assert "kubevirt.io/workloadUpdateMigration" in json.dumps(migration["metadata"])
        eventually(lambda: not machine.condition("vmi", "MigrationRequired"))
    finally:
        vlans.kubectl("delete", "vm", "movable", "--timeout=300s")
        vlans.kubectl("delete", "vmim", "--all", "--timeout=300s")
