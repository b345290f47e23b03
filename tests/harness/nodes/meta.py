"""Multus's part on a real node: a CNI program that calls the cluster's network and then the NADs of the pod.

containerd runs `python -m tests.harness.nodes.meta` as the only plugin of its list. The configuration names a
kubeconfig and the list of the cluster's network. What the pod's annotation and the NADs say is read by the same rules
as in the lab. The device of a NAD's resource is in kubelet's checkpoint, where Multus also finds it if there is no
socket.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lanloom.api.core import PODS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom_lab.workloads.multus import (
    Attachment,
    Unreadable,
    attachment,
    complaint,
    network_status,
    selections,
)

Raw = dict[str, Any]

CHECKPOINT = Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
RECORDS = Path("/run/cni/meta")


class Failed(Exception):
    """A call failed; the text is for the pod's Events."""


class Call(NamedTuple):
    """What containerd asks: the command, its variables, and the configuration."""

    command: str
    variables: Mapping[str, str]
    config: Raw

    @property
    def container(self) -> str:
        """The id of the pod's sandbox."""
        return self.variables["CNI_CONTAINERID"]

    @property
    def arguments(self) -> dict[str, str]:
        """The pairs of CNI_ARGS."""
        pairs = (item.partition("=") for item in self.variables.get("CNI_ARGS", "").split(";"))
        return {name: value for name, _, value in pairs}

    @property
    def record(self) -> Path:
        """Where the attachments of the sandbox are noted."""
        return RECORDS / f"{self.container}.json"


async def add(call: Call) -> Raw:
    """Attach a pod to the cluster's network, and to its NADs; return the result of the former."""
    key = Key(call.arguments["K8S_POD_NAMESPACE"], call.arguments["K8S_POD_NAME"])
    async with HttpClient(load(call.config["kubeconfig"])) as client:
        pod = await client.get(PODS, key.name, key.namespace)
        wanted = [_cluster_network(call.config["clusterNetwork"])]
        for selection, _ in selections(pod.metadata.annotations, key.namespace):
            nad = await client.get(NADS, selection.name, selection.namespace)
            resource = nad.metadata.annotations.get(RESOURCE_NAME, "")
            item = attachment(selection, nad.spec.config, default=False)
            wanted.append(_with_device(item, pod.metadata.uid, resource))
        results = [_attach(call, item, done) for done, item in enumerate(wanted)]
        annotations = {NETWORK_STATUS: network_status(zip(wanted, results, strict=True))}
        await client.patch(PODS, key.name, {"metadata": {"annotations": annotations}}, key.namespace)
    return results[0]


def _cluster_network(configuration: Raw) -> Attachment:
    name, version = configuration["name"], configuration["cniVersion"]
    plugins = tuple({**item, "name": name, "cniVersion": version} for item in configuration["plugins"])
    return Attachment(nad=Key("", name), interface="eth0", plugins=plugins, default=True)


def _with_device(item: Attachment, uid: str, resource: str) -> Attachment:
    if not resource:
        return item
    entries = json.loads(CHECKPOINT.read_text())["Data"]["PodDeviceEntries"] or ()
    mine = [entry for entry in entries if (entry["PodUID"], entry["ResourceName"]) == (uid, resource)]
    devices = [device for entry in mine for device in _devices(entry["DeviceIDs"])]
    if not devices:
        raise Failed(f"kubelet gave the pod no device of {resource}, which the NAD {item.nad} is for")
    plugins = tuple(plugin | {"deviceID": devices[0]} for plugin in item.plugins)
    return Attachment(nad=item.nad, interface=item.interface, plugins=plugins, default=item.default)


def _devices(noted: "list[str] | dict[str, list[str]]") -> list[str]:
    """Since 1.20 by the processors' memory to which they are near."""
    return [each for near in noted.values() for each in near] if isinstance(noted, dict) else noted


def _attach(call: Call, item: Attachment, place: int) -> Raw:
    result: Raw = {}
    for plugin in item.plugins:
        # Noted before: what a plugin began and did not finish is taken away by its DEL too.
        _note(call, place, item, result)
        result = _run(call, "ADD", item.interface, plugin | ({"prevResult": result} if result else {}))
    _note(call, place, item, result)
    return result


def _note(call: Call, place: int, item: Attachment, result: Raw) -> None:
    noted = _noted(call)[:place]
    noted.append({"interface": item.interface, "plugins": item.plugins, "result": result})
    RECORDS.mkdir(parents=True, exist_ok=True)
    call.record.write_text(json.dumps(noted))


def _noted(call: Call) -> list[Raw]:
    try:
        found: list[Raw] = json.loads(call.record.read_text())
    except FileNotFoundError:
        return []
    return found


async def delete(call: Call) -> None:
    """Detach a pod from everything that was noted, last first."""
    for item in reversed(_noted(call)):
        for plugin in reversed(item["plugins"]):
            previous = {"prevResult": item["result"]} if item["result"] else {}
            _run(call, "DEL", item["interface"], plugin | previous)
    call.record.unlink(missing_ok=True)


def _run(call: Call, command: str, interface: str, plugin: Raw) -> Raw:
    places = [Path(place, plugin["type"]) for place in call.variables["CNI_PATH"].split(":")]
    program = next((place for place in places if place.exists()), None)
    if program is None:
        raise Failed(f"there is no plugin {plugin['type']} in {call.variables['CNI_PATH']}")
    environment = {**call.variables, "CNI_COMMAND": command, "CNI_IFNAME": interface}
    done = subprocess.run(
        [program], input=json.dumps(plugin), capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        raise Failed(
            f"{plugin['type']} failed ({command} {interface}): {complaint(done.stdout, done.stderr)}"
        )
    return dict(json.loads(done.stdout)) if done.stdout.strip() else {}


COMMANDS = {"ADD": add, "DEL": delete}
"""containerd calls no others for a pod."""


def main() -> int:
    """Answer one call of containerd's."""
    command = os.environ["CNI_COMMAND"]
    if command == "VERSION":
        print(json.dumps({"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}))
        return 0
    variables = {
        name: value for name, value in os.environ.items() if name.startswith("CNI_") or name == "PATH"
    }
    call = Call(command, variables, json.load(sys.stdin))
    try:
        result = asyncio.run(COMMANDS[command](call))
    except (Failed, Unreadable, KubeError) as error:
        print(json.dumps({"cniVersion": call.config["cniVersion"], "code": 999, "msg": str(error)}))
        return 1
    if result is not None:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
