"""KubeVirt for the lab: machines, their pods and migrations as its controllers have them.

Live update of networks is that of the release that KubeVirt's own object in the cluster names (`installed`). Without
such an object, Lanloom decides the spec of a running machine, and when it migrates. Guests are real, disks are none:
each machine runs the guest of the lab. `KubeVirt` composes the controllers, and has what the rest of the lab needs of
them.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.kubevirtconfig import KubeVirt as Installation
from lanloom.api.meta import Key
from lanloom.features.liveupdate.manager.rawmachines import CONTROLLER_REVISIONS, ControllerRevision
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom_lab.errors import Refused
from lanloom_lab.guests import calls
from lanloom_lab.kubevirt.instances import InstanceController, MachineController, by_uid, created_by
from lanloom_lab.kubevirt.launchers import Launcher, LauncherFailed, LauncherRun, Launchers
from lanloom_lab.kubevirt.liveupdate import LiveUpdate
from lanloom_lab.kubevirt.migrations import MigrationController, of_machine
from lanloom_lab.kubevirt.objects import VMIMS, VMIS, VMS, Whole
from lanloom_lab.workloads import pods as workloads
from lanloom_lab.workloads.hosts import Hosts
from lanloom_lab.workloads.runs import Run
from lanloom_lab.workloads.sandboxes import netns_name

LABEL = "lab.lanloom.io/kubevirt"
"""With the value `none`: a machine, instance or pod that the stand-in leaves alone, because a test plays it."""

_SELECTED = f"{LABEL}!=none"


class KubeVirt:
    """Machines on the nodes of `hosts`. `logs` gives a node's directory of logs."""

    def __init__(
        self,
        client: Client,
        hosts: Hosts,
        *,
        logs: Callable[[str], Path],
        rng: Random,
        now: Callable[[], float],
    ) -> None:
        self._hosts = hosts
        self._logs = logs
        self._now = now
        self._launchers = Launchers()
        vms: Informer[Whole] = Informer(client, VMS, rng=rng, labels=_SELECTED)
        vmis: Informer[Whole] = Informer(client, VMIS, rng=rng, labels=_SELECTED, indexes={"uid": by_uid})
        vmims: Informer[Whole] = Informer(client, VMIMS, rng=rng, indexes={"machine": of_machine})
        pods: Informer[Pod] = Informer(client, PODS, rng=rng, indexes={"owner": created_by})
        revisions: Informer[ControllerRevision] = Informer(client, CONTROLLER_REVISIONS, rng=rng)
        kubevirts: Informer[Installation] = Informer(client, KUBEVIRTS, rng=rng)
        self._informers = (kubevirts, revisions, vms, vmis, vmims, pods)
        self._instances = InstanceController(
            client,
            hosts,
            vmis,
            pods,
            self._launchers,
            rng,
            now,
            lambda vmi, pod: self._live.evaluate(vmi, pod),
        )
        self._live = LiveUpdate(client, kubevirts, vms, vmis, vmims, revisions, self._instances, rng, now)
        self._controllers = (
            self._live.controller,
            MachineController(client, vms, vmis, rng, now).controller,
            self._instances.controller,
            MigrationController(
                client, vmims, vmis, pods, self._instances, self._launchers, rng, now
            ).controller,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())
            await all_synced(self._informers)
            group.create_task(self._live.run_updater())
            for controller in self._controllers:
                group.create_task(controller.run())

    def launch(self, pod: workloads.Pod, run: Run, changed: Callable[[], None]) -> Run:
        """Return what a kubelet runs in a pod with a network of its own: a launcher, in KubeVirt's pods."""
        labels = pod.metadata.labels
        if labels.get("kubevirt.io") != "virt-launcher" or labels.get(LABEL) == "none":
            return run
        node, netns = pod.spec.node_name, netns_name(pod.metadata.key)

        def make(ended: Callable[[], None]) -> Launcher:
            return Launcher(self._hosts, node, netns, self._logs(node) / "guests.log", ended)

        return LauncherRun(pod, run, self._launchers, make, self._now, changed)

    async def run_in_guest(self, key: Key, command: str) -> tuple[int, str]:
        """Return exit status and output of a command in a machine's guest. Raises Refused."""
        launcher = self._instances.active(key)
        if launcher is None or not launcher.runs:
            raise Refused(f"no machine {key} runs", "See the machines with `kubectl get vmi -A`.")
        try:
            reply = await launcher.ask(calls.Run(command=command))
        except LauncherFailed as error:
            raise Refused(
                f"the guest of {key} did not answer: {error}", "See `lanloom lab status`."
            ) from None
        return reply.status, reply.text
