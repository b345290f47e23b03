"""`lanloom vm list`, `show` and `move` as their users call them, on an embedded server with KubeVirt's kinds."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import Result

from lanloom.api.core import CRDS, EVENTS, NAMESPACES, NODES, PODS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import FINAL, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import rfc3339
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.features.liveupdate import following
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.liveupdate import bodies, objects
from tests.features.liveupdate.definitions import definition

pytestmark = pytest.mark.slow

HOSTILE = "\x1b[31mred\x07 [bold]loud[/bold]\nsecond line"


async def install(client: Client) -> None:
    """KubeVirt's kinds, nodes, and networks to move to."""
    await client.create(CRDS, definition(KUBEVIRTS))
    for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS):
        await client.create(CRDS, manifest(resource))
    for name in ("node1", "node2"):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await client.create(NODES, {"metadata": {"name": name}, "status": ready})
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(MIGRATIONS)
                break
            except NotFound:
                await asyncio.sleep(0.01)
    for number in (10, 20):
        await client.create(NADS, bodies.nad(f"vlan{number}", number), "default")
    await client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await client.create(NADS, bodies.nad("vlan30", 30, "other"), "other")


async def run_machine(
    client: Client,
    name: str,
    *,
    migratable: bool = True,
    on: Mapping[str, str] = bodies.NICS,
    wanted: Mapping[str, str] | None = None,
) -> VirtualMachine:
    """A machine that runs on node1, whose NICs are to be where `wanted` says, and are where `on` says."""
    vm = await client.create(VIRTUAL_MACHINES, bodies.machine(name, wanted or on), "default")
    body = bodies.instance(name, vm.metadata.uid, on, migratable=migratable)
    vmi = await client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
    await client.create(PODS, bodies.launcher(name, vmi.metadata.uid, "node1", on), "default")
    return vm


async def fill(client: Client) -> None:
    """Machines in each state."""
    await install(client)
    await run_machine(client, "ready")
    await run_machine(client, "bound", migratable=False)
    await client.create(VIRTUAL_MACHINES, bodies.machine("stopped"), "default")
    vm = await run_machine(client, "waiting", wanted={"blue": "vlan20", "red": "other/vlan30"})
    await add_event(client, vm, HOSTILE)
    vm = await run_machine(client, "restart")
    condition = {
        "type": "RestartRequired",
        "status": "True",
        "message": "a non-live-updatable field was changed",
    }
    current = {
        "type": "NetworksCurrent",
        "status": "False",
        "reason": "NotMigratable",
        "message": "blue: stays",
    }
    restart = {"status": {"conditions": [condition]}}
    await client.patch(VIRTUAL_MACHINES, "restart", restart, "default", subresource="status")
    instance = {"status": {"conditions": [current]}}
    await client.patch(VIRTUAL_MACHINE_INSTANCES, "restart", instance, "default")
    await run_machine(client, "migrating")
    made = await client.create(
        MIGRATIONS, {"metadata": {"name": "mig"}, "spec": {"vmiName": "migrating"}}, "default"
    )
    running = {"status": {"phase": "Running"}}
    await client.patch(MIGRATIONS, "mig", running, "default", subresource="status")
    state = {"sourceNode": "node1", "targetNode": "node2", "migrationUid": made.metadata.uid}
    await client.patch(
        VIRTUAL_MACHINE_INSTANCES, "migrating", {"status": {"migrationState": state}}, "default"
    )
    await run_machine(client, "patient")
    await run_machine(client, "pods")
    networks = [
        objects.network("default", "vlan20"),
        {"name": "blue", "pod": {}},
        objects.network("red", "other/vlan30"),
    ]
    edit = {"op": "replace", "path": "/spec/template/spec/networks", "value": networks}
    await client.json_patch(VIRTUAL_MACHINES, "pods", [edit], "default")
    await run_machine(client, "unreadable")
    [pod] = [item for item in (await client.list(PODS)).items if "unreadable" in item.metadata.name]
    change = {"metadata": {"annotations": {NETWORK_STATUS: "{"}}}
    await client.patch(PODS, pod.metadata.name, change, "default")


async def add_event(client: Client, vm: VirtualMachine, message: str) -> None:
    """Something was reported of a machine."""
    regarding = {
        "kind": "VirtualMachine",
        "namespace": "default",
        "name": vm.metadata.name,
        "uid": vm.metadata.uid,
    }
    body: dict[str, Any] = {
        "metadata": {"name": f"{vm.metadata.name}.1"},
        "involvedObject": regarding,
        "reason": "Told",
    }
    body |= {"message": message, "type": "Warning", "count": 2, "lastTimestamp": rfc3339(0)}
    await client.create(EVENTS, body, "default")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with these machines, which no controller runs."""
    with served(tmp_path_factory.mktemp("served"), manager=False) as made:
        made.do(fill)
        yield made


def is_tidy(done: Result) -> bool:
    """Whether nothing is wider than the terminal, and nothing of others reaches it."""
    return max(map(len, done.output.splitlines())) <= 80 and "\x1b" not in done.output


def row(done: Result, name: str) -> list[str]:
    """The words of the row of a machine."""
    return next(line.split() for line in done.output.splitlines() if line.split()[1:2] == [name])


def nad_of(cluster: Cluster, name: str, nic: int = 1) -> str:
    """The NAD that a machine names for a NIC."""
    template = cluster.do(lambda client: client.get(VIRTUAL_MACHINES, name, "default")).spec.template
    assert template is not None
    multus = template.spec.networks[nic].multus
    assert multus is not None
    return multus.network_name


def test_mode(cluster: Cluster) -> None:
    """The list ends with who changes networks of running machines; programs get the machines alone."""
    done = cluster.lanloom("vm", "list", columns=140)
    last = done.output[done.output.index("Mode ") :]
    assert " ".join(last.split()) == (
        "Mode full: Lanloom migrates machines and moves NICs in place: KubeVirt's controllers don't run on this "
        "cluster."
    )
    assert "Mode" not in cluster.lanloom("vm", "list", "--output", "json").output


@pytest.mark.parametrize("policy", ["migrate", "in-place", "prefer-in-place"])
def test_moves_in_mode_restart(cluster: Cluster, policy: str) -> None:
    """Where KubeVirt can't change networks of running machines, each way is refused with the mode and the remedy."""
    meta = {"name": "kubevirt", "namespace": "default"}
    cluster.do(lambda client: client.create(KUBEVIRTS, {"metadata": meta}, "default"))
    try:
        status = {"status": {"observedKubeVirtVersion": "v1.7.0"}}
        cluster.do(
            lambda client: client.patch(KUBEVIRTS, "kubevirt", status, "default", subresource="status")
        )
        arguments = ("vm", "move", "ready", "blue", "--to", "vlan20", "--policy", policy, "--dry-run")
        done = cluster.lanloom(*arguments, columns=400)
        assert done.exit_code == 1
        assert "mode restart: KubeVirt v1.7.0 does not change networks of running machines" in done.output
        assert "edit the VirtualMachine and restart it, or update KubeVirt" in done.output
    finally:
        cluster.do(lambda client: client.delete(KUBEVIRTS, "kubevirt", "default"))


def test_list(cluster: Cluster) -> None:
    """Each machine has a row with its state, and the first one that is not well is explained."""
    done = cluster.lanloom("vm", "list", columns=140)
    settled = ["blue=vlan10", "red=other/vlan30"]
    assert row(done, "ready") == ["default", "ready", "Ready", "node1", *settled]
    assert row(done, "stopped")[2:4] == ["Stopped", "-"]
    assert row(done, "waiting")[2] == "Waiting"
    assert "blue=vlan10→vlan20" in row(done, "waiting")
    assert row(done, "restart")[2] == "RestartRequired"
    assert row(done, "migrating")[2] == "Migrating"
    assert row(done, "unreadable")[2] == "Unreadable"
    assert "default/migrating: Migrating: mig to node2: Running" in done.output
    assert done.exit_code == 1
    assert is_tidy(cluster.lanloom("vm", "list"))


def test_conditions_are_shown_once(cluster: Cluster) -> None:
    """A condition of the instance that KubeVirt shows on the machine as well is listed once."""
    shown = {"status": {"conditions": [{"type": "LiveMigratable", "status": "True"}]}}
    cluster.do(lambda client: client.patch(VIRTUAL_MACHINES, "ready", shown, "default", subresource="status"))
    assert cluster.lanloom("vm", "show", "ready").output.count("LiveMigratable: True") == 1


def test_list_for_programs(cluster: Cluster) -> None:
    """JSON has everything, and fields are chosen as everywhere."""
    data = {item["name"]: item for item in json.loads(cluster.lanloom("vm", "list", "-o", "json").output)}
    blue = data["waiting"]["nics"][1]
    assert (blue["wanted"], blue["instance"], blue["observed"]) == (
        "default/vlan20",
        "default/vlan10",
        "default/vlan10",
    )
    done = cluster.lanloom("vm", "list", "-o", "name,migratable", "--no-headers", "--separator=:")
    assert {"ready:Y", "bound:N", "stopped:-"} <= set(done.output.splitlines())
    assert cluster.lanloom("vm", "list", "-n", "empty", "-o", "json").output == "[]\n"


def test_show(cluster: Cluster) -> None:
    """One machine shows each NIC with the NADs that are wanted and observed, and what happened."""
    done = cluster.lanloom("vm", "show", "waiting")
    words = " ".join(done.output.split())
    for text in (
        "NIC blue is to be on default/vlan20, and is on default/vlan10",
        "no migration was requested yet",
        "on node1; it can migrate live",
        "LiveMigratable: True",
        "Warning Told (x2): ?[31mred? [bold]loud[/bold] second line",
    ):
        assert text in words
    assert is_tidy(done)
    assert done.exit_code == 1
    assert cluster.lanloom("vm", "show", "default/ready").exit_code == 0


def test_show_what_needs_a_restart(cluster: Cluster) -> None:
    """A machine that is to be restarted says so, and what its networks wait for."""
    done = cluster.lanloom("vm", "show", "restart", columns=200)
    assert "a non-live-updatable field was changed; restart the machine. blue: stays" in done.output


def test_show_what_can_not_be_read(cluster: Cluster) -> None:
    """A network-status that can't be read is named with its pod."""
    done = cluster.lanloom("vm", "show", "unreadable", columns=200)
    assert (
        "annotation k8s.v1.cni.cncf.io/network-status of pod default/virt-launcher-unreadable" in done.output
    )
    assert "it is not valid JSON" in done.output


def test_show_what_does_not_exist(cluster: Cluster) -> None:
    """An unknown machine is answered with those that there are; a name that can be none is wrong usage."""
    done = cluster.lanloom("vm", "show", "nobody", columns=200)
    assert 'no machine "nobody" in namespace default; there are bound, migrating, patient' in done.output
    assert done.exit_code == 1
    assert cluster.lanloom("vm", "show", "Not_A_Name").exit_code == 2


@pytest.mark.parametrize("policy", ["migrate", "in-place"])
def test_dry_run(cluster: Cluster, policy: str) -> None:
    """A dry run says what would be written, and writes nothing."""
    done = cluster.lanloom("vm", "move", "ready", "blue", "--to", "vlan20", "--policy", policy, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "default/ready: NIC blue from default/vlan10 to default/vlan20" in done.output
    assert "nothing was changed" in done.output
    assert ("spec.template.spec.networks[1].multus.networkName" in done.output) == (policy == "migrate")
    assert nad_of(cluster, "ready") == "vlan10"
    assert cluster.do(lambda client: client.list(NETWORK_SWAPS)).items == ()


def test_refusals(cluster: Cluster) -> None:
    """What can't work ends with 1, names the object and the remedy, and changes nothing."""
    done = cluster.lanloom("vm", "move", "bound", "blue", "--to", "vlan20", columns=300)
    assert done.exit_code == 1
    assert "condition LiveMigratable: DisksNotLiveMigratable" in done.output
    assert "use --policy in-place" in done.output
    assert nad_of(cluster, "bound") == "vlan10"


def test_the_preflight(cluster: Cluster) -> None:
    """A network that is not there stops every move, whether the machine runs or not."""
    for name, policy in (("ready", "migrate"), ("bound", "in-place"), ("stopped", "migrate")):
        done = cluster.lanloom("vm", "move", name, "red", "--to", "typo", "--policy", policy, columns=300)
        assert done.exit_code == 1
        assert (
            "NetworkAttachmentDefinition default/typo does not exist; create it, or name another"
            in done.output
        )


def test_move_at_the_next_start(cluster: Cluster) -> None:
    """A machine that does not run is edited; the fields around the edit stay."""
    done = cluster.lanloom("vm", "move", "stopped", "red", "--to", "vlan20", "-o", "json")
    assert json.loads(done.output)["way"] == "next-start"
    assert nad_of(cluster, "stopped", 2) == "default/vlan20"
    again = cluster.lanloom("vm", "move", "stopped", "red", "--to", "vlan20")
    assert "is on default/vlan20 already" in again.output


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_move_of_an_instance_that_has_ended(cluster: Cluster, phase: str) -> None:
    """A machine whose instance has ended is edited as one that does not run."""

    def set_phase(phase: str) -> None:
        change = {"status": {"phase": phase}}
        cluster.do(lambda client: client.patch(VIRTUAL_MACHINE_INSTANCES, "restart", change, "default"))

    set_phase(phase)
    try:
        done = cluster.lanloom("vm", "move", "restart", "blue", "--to", "vlan20", "--dry-run", "-o", "json")
    finally:
        set_phase("Running")
    assert json.loads(done.output)["way"] == "next-start", done.output


async def play_swap(client: Client, phase: str, port: dict[str, Any]) -> None:
    """Who moves ports: brings the next swap to a phase."""
    async with asyncio.timeout(30):
        while True:
            for swap in (await client.list(NETWORK_SWAPS)).items:
                if swap.status.phase not in FINAL:
                    status = {"phase": phase, "message": "so it is", "node": "node1", "port": port}
                    await client.patch(
                        NETWORK_SWAPS, swap.metadata.name, {"status": status}, "default", subresource="status"
                    )
                    return
            await asyncio.sleep(0.01)


def alongside(cluster: Cluster, phase: str, port: dict[str, Any], *words: str) -> Result:
    """Run a command while a swap is brought to a phase."""
    from threading import Thread

    player = Thread(target=lambda: cluster.do(lambda client: play_swap(client, phase, port)))
    player.start()
    done = cluster.lanloom("vm", "move", *words)
    player.join(30)
    return done


def test_move_in_place(cluster: Cluster) -> None:
    """A swap is created as the machine's own, and --wait ends with the gap when it has succeeded."""
    port = {
        "node": "node1",
        "nad": "default/vlan20",
        "gapMilliseconds": 12.4,
        "movedAt": "2026-01-01T00:00:00Z",
    }
    words = ("bound", "blue", "--to", "vlan20", "--policy", "in-place", "--flap", "--wait", "--timeout", "60")
    done = alongside(cluster, "Succeeded", port, *words)
    assert done.exit_code == 0, done.output
    assert "the port had no network for 12 ms" in " ".join(done.output.split())
    [swap] = swaps_of(cluster, "bound")
    assert (swap.spec.network, swap.spec.from_, swap.spec.to) == ("blue", "default/vlan10", "default/vlan20")
    assert swap.spec.flap and swap.spec.record
    [owner] = swap.metadata.owner_references
    assert (owner.kind, owner.uid) == ("VirtualMachineInstance", swap.spec.uid)


def test_a_move_that_fails(cluster: Cluster) -> None:
    """--wait ends with 1 and the reason when the swap was taken back."""
    words = ("bound", "red", "--to", "vlan20", "--policy", "in-place", "--wait", "-o", "json")
    done = alongside(cluster, "Reverted", {"node": "node1"}, *words)
    assert done.exit_code == 1
    result = json.loads(done.stdout)
    assert (result["outcome"], result["message"], result["gap"]) == ("failed", "Reverted: so it is", None)


def test_a_move_that_is_not_over_in_time(cluster: Cluster) -> None:
    """--wait ends with 3 when time is up, and the move goes on."""
    done = cluster.lanloom("vm", "move", "ready", "blue", "--to", "vlan20", "--wait", "--timeout", "0.2")
    assert done.exit_code == 3
    # On a busy machine, time is up before the first look at the machine.
    told = r"it is not over after 0\.2 seconds and goes on: (requested|Waiting: NIC blue)"
    assert re.search(told, " ".join(done.output.split()))
    assert nad_of(cluster, "ready") == "vlan20"


def test_an_interrupted_move(cluster: Cluster) -> None:
    """Ctrl-C ends the waiting with 130, as shells have it, and the message says that the move goes on."""
    words = ("vm", "move", "patient", "blue", "--to", "vlan20", "--wait")
    command = [sys.executable, "-m", "lanloom", *words]
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "200"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as made:
        assert made.stderr is not None
        while "Waiting: NIC blue" not in made.stderr.readline():
            assert made.poll() is None
        made.send_signal(signal.SIGINT)
        output, _ = made.communicate(timeout=60)
    assert made.returncode == 130
    assert "interrupted: the move goes on: Waiting: NIC blue" in output
    assert nad_of(cluster, "patient") == "vlan20"


def test_the_pod_network(cluster: Cluster) -> None:
    """A NIC that is to leave the pod network, or to come there, is shown where it is until the machine restarts."""
    done = cluster.lanloom("vm", "list", columns=200)
    [line] = [line for line in done.output.splitlines() if line.split()[1:2] == ["pods"]]
    assert "default=pod network→vlan20 blue=vlan10→pod network" in line
    done = cluster.lanloom("vm", "show", "pods", columns=200)
    text = " ".join(done.output.split())
    assert "NIC default is to be on default/vlan20, and is on pod network; restart the machine" in text


def test_what_a_migration_waits_for(cluster: Cluster) -> None:
    """`vm list` and `vm show` repeat why the target pod of a migration does not start, as the condition has it."""
    why = "blue: from a to b: VirtualMachineInstanceMigration mig waits: Pod default/target is not scheduled: full"

    async def say(client: Client) -> None:
        condition = {"type": "NetworksCurrent", "status": "False", "reason": "Migrating", "message": why}
        vmi = await client.get(VIRTUAL_MACHINE_INSTANCES, "migrating", "default")
        kept = [{"type": item.type, "status": item.status} for item in vmi.status.conditions]
        status = {"status": {"conditions": [*kept, condition]}}
        await client.patch(VIRTUAL_MACHINE_INSTANCES, "migrating", status, "default")

    cluster.do(say)
    for words in (("list", "-o", "+message"), ("show", "migrating")):
        text = " ".join(cluster.lanloom("vm", *words, columns=250).output.split())
        assert "mig to node2: Running; Pod default/target is not scheduled: full" in text


def test_a_move_that_needs_help(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """--wait ends with 1 and the reason when the machine says for a while that nothing will move it."""
    monkeypatch.setattr(following, "STALE_SECONDS", 1.0)

    async def say(client: Client) -> None:
        why = {"reason": "PreflightFailed", "message": "blue: the bridge is on no node; add one"}
        vmi = await client.get(VIRTUAL_MACHINE_INSTANCES, "waiting", "default")
        kept = [
            {"type": item.type, "status": item.status}
            for item in vmi.status.conditions
            if item.type != "NetworksCurrent"
        ]
        conditions = [*kept, {"type": "NetworksCurrent", "status": "False", **why}]
        status = {"status": {"conditions": conditions}}
        await client.patch(VIRTUAL_MACHINE_INSTANCES, "waiting", status, "default")

    cluster.do(say)
    words = ("waiting", "red", "--to", "default/vlan10", "--wait", "--timeout", "60", "-o", "json")
    done = cluster.lanloom("vm", "move", *words)
    assert done.exit_code == 1
    assert "PreflightFailed: blue: the bridge is on no node; add one" in json.loads(done.stdout)["message"]


def swaps_of(cluster: Cluster, name: str) -> list[NetworkSwap]:
    """The swaps of a machine."""
    found = cluster.do(lambda client: client.list(NETWORK_SWAPS)).items
    return [item for item in found if item.spec.machine == name]


def test_completion(cluster: Cluster) -> None:
    """A shell is offered machines, their NICs, and NADs."""
    assert cluster.offered("lanloom vm show st") == ["plain,stopped"]
    assert cluster.offered("lanloom vm move ready re") == ["plain,red"]
    assert cluster.offered("lanloom vm move ready blue --to vl") == ["plain,vlan10", "plain,vlan20"]


def test_no_kubevirt(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without KubeVirt there are no machines, and the message says why."""
    with served(tmp_path_factory.mktemp("bare"), manager=False) as bare:
        done = bare.lanloom("vm", "list", columns=200)
    assert done.exit_code == 1
    assert "does not serve VirtualMachines" in done.output
