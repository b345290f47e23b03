"""Multus and its Dynamic Networks Controller, played: CNI of new pods, and of networks that come and go."""

import json
from collections.abc import Mapping
from typing import Any

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import VirtualMachineInstanceSpec, instance_of, nad_of, pod_interface_name
from lanloom.api.meta import Key
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS, interfaces_of
from lanloom_embedded.local import LocalClient
from tests.sim.vm_judge import Verifier
from tests.sim.vm_state import PLACE, Port, State, binding_of

Raw = dict[str, Any]


class Multus:
    """The nodes' CNI. `down` are nodes without power."""

    def __init__(self, admin: LocalClient, state: State, witness: Verifier, down: set[str]) -> None:
        self._admin = admin
        self._state = state
        self._witness = witness
        self._down = down

    async def work(self) -> None:
        """Networks come and go as the annotations of pods want it, and with the pods."""
        for pod in list(self._state.pods.values()):
            _, uid = instance_of(pod)
            alive = any(item.metadata.uid == uid for item in self._state.instances.values())
            if not alive or pod.spec.node_name in self._down:
                await self.end(pod)
            else:
                await self._attach(pod)

    async def end(self, pod: Pod) -> None:
        self._state.unplug(pod.metadata.uid)
        await self._admin.delete(PODS, pod.metadata.name, PLACE, grace=0)

    async def _attach(self, pod: Pod) -> None:
        """CNI's ADD of a new pod, which needs all of its NADs; later, one network after the other."""
        annotations = pod.metadata.annotations
        wanted = {
            item["interface"]: Key(item["namespace"], item["name"])
            for item in json.loads(annotations[MULTUS_NETWORKS])
        }
        text = annotations.get(NETWORK_STATUS, "")
        present = {name: title for name, title in interfaces_of(text).items() if name != "eth0"}
        told = {name: str(nad) for name, nad in wanted.items()}
        if present == told and text:
            return
        if not text and not all(nad in self._state.nads for nad in wanted.values()):
            return
        result = dict(present)
        for name, nad in wanted.items():
            if present.get(name) != str(nad) and nad in self._state.nads:
                self._plug(pod, name, nad)
                result[name] = str(nad)
        for name in sorted(present.keys() - wanted.keys()):
            self._state.ports.pop((pod.metadata.uid, name), None)
            del result[name]
        if result == present and text:
            return
        change = {"metadata": {"annotations": {NETWORK_STATUS: network_status(result)}}}
        await self._admin.patch(PODS, pod.metadata.name, change, PLACE)

    def _plug(self, pod: Pod, interface: str, nad: Key) -> None:
        """A new port on the bridge of a NAD; it takes the place of an earlier one, whose NIC it cuts off."""
        uid, place = instance_of(pod)[1], (pod.metadata.uid, interface)
        guest = any(
            item.metadata.uid == uid
            and item.status.phase == "Running"
            and item.status.node_name == pod.spec.node_name
            for item in self._state.instances.values()
        )
        if place in self._state.ports and guest:
            self._witness.complain(
                f"Multus plugs {interface} of {pod.metadata.name} anew, to {nad}, under the guest"
            )
        binding = binding_of(self._state.nads[nad], f"veth-{interface[3:9]}")
        self._state.ports[place] = Port(uid, pod.metadata.uid, pod.spec.node_name, interface, binding)


def asked(spec: VirtualMachineInstanceSpec) -> str:
    """The annotation of a launcher pod of a machine: its networks that are not to go."""
    absent = {item.name for item in spec.interfaces if item.state == "absent"}
    found = []
    for item in spec.networks:
        if item.multus is not None and item.name not in absent:
            nad = nad_of(item.multus, PLACE)
            found.append(
                {"name": nad.name, "namespace": nad.namespace, "interface": pod_interface_name(item.name)}
            )
    return json.dumps(found, separators=(",", ":"))


def network_status(attached: Mapping[str, str]) -> str:
    """What Multus tells of a pod with these NADs by interface."""
    found: list[Raw] = [{"name": "cbr0", "interface": "eth0", "default": True, "dns": {}}]
    found += [
        {"name": nad, "interface": name, "mac": "02:00:00:00:00:01", "dns": {}}
        for name, nad in attached.items()
    ]
    return json.dumps(found)
