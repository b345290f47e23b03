"""A pod's own network: a namespace on its node, with an interface for each NAD that the pod names. Nothing runs in it.

The namespace is called `NAMESPACE.POD`, for `ip netns exec`.
"""

import hashlib
import json
from typing import Any

from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client
from lanloom_lab.workloads import multus
from lanloom_lab.workloads.devices import Devices, DevicesMissing
from lanloom_lab.workloads.hosts import CompletedProcess, Hosts
from lanloom_lab.workloads.multus import Attachment, Unreadable
from lanloom_lab.workloads.pods import Pod

Raw = dict[str, Any]

NAME_MAX = 255
"""Of a file's name."""


class SandboxFailed(Exception):
    """A sandbox could not be made; nothing of it is left. The message says why, as kubelets do."""


def netns_name(pod: Key) -> str:
    """Return the name of a pod's namespace on its node.

    There is no dot in a Kubernetes namespace, so no two are alike.
    """
    return f"{pod.namespace}.{pod.name}"[:NAME_MAX]


class Sandbox:
    """The namespace of one pod on one node, for one boot of it."""

    def __init__(
        self,
        hosts: Hosts,
        client: Client,
        devices: Devices,
        isolation: NamespaceIsolation,
        pod: Pod,
        number: int,
    ) -> None:
        meta = pod.metadata
        self._isolation = isolation
        self._devices = devices
        self._resources = pod.device_resources
        self._given: dict[str, str] = {}
        self._hosts = hosts
        self._client = client
        self._node = pod.spec.node_name
        self._annotations = meta.annotations
        self._netns = netns_name(meta.key)
        self._pod = multus.Pod(
            key=meta.key,
            uid=meta.uid,
            container=hashlib.sha256(f"{meta.uid} {number}".encode()).hexdigest(),
            netns=f"/run/netns/{self._netns}",
        )
        self._attached: list[tuple[Attachment, Raw]] = []

    @property
    def addresses(self) -> list[str]:
        """The pod's addresses, which are those of its default network."""
        return [ip for item, result in self._attached if item.default for ip in multus.addresses(result)]

    @property
    def network_status(self) -> str:
        """What Multus writes onto the pod; empty if it was attached to nothing."""
        return multus.network_status(self._attached) if self._attached else ""

    async def make(self) -> None:
        """Make the namespace and attach it. Raises SandboxFailed, or LabError where the node does not run."""
        try:
            if self._resources:
                self._given = await self._devices.allocate(self._node, self._pod.uid, self._resources)
            wanted = [await self._attachment(*item) for item in self._selections()]
            await self._command("ip", "netns", "add", self._netns)
            await self._command("ip", "-netns", self._netns, "link", "set", "lo", "up")
            for item in wanted:
                await self._attach(item)
        except (Unreadable, DevicesMissing, SandboxFailed) as error:
            await self.remove()
            raise SandboxFailed(f"Failed to create pod sandbox: {error}") from None

    async def remove(self) -> None:
        """Detach the namespace, as far as it was attached, and take it away. Raises LabError."""
        for item, result in reversed(self._attached):
            for plugin in reversed(item.plugins):
                # As runtimes do: what a plugin can't take away goes with the namespace, and no deletion is held up.
                await self._call("DEL", item, plugin | {"prevResult": result} if result else plugin)
        self._attached = []
        await self._hosts.run(self._node, "sh", "-c", _REMOVE, "remove", self._netns)
        if self._given:
            await self._devices.release(self._node, self._pod.uid)

    def _selections(self) -> tuple[tuple[multus.Selection, bool], ...]:
        return multus.selections(self._annotations, self._pod.key.namespace)

    async def _attachment(self, selection: multus.Selection, default: bool) -> Attachment:
        key = Key(selection.namespace, selection.name)
        if not default:
            multus.check_isolation(self._isolation, self._pod.key.namespace, key)
        try:
            nad = await self._client.get(NADS, key.name, key.namespace)
        except NotFound:
            raise Unreadable(f"there is no network-attachment-definition {key}") from None
        config = multus.with_device(nad.spec.config, nad.metadata.annotations, self._given)
        return multus.attachment(selection, config, default=default)

    async def _attach(self, item: Attachment) -> None:
        result: Raw = {}
        # Noted before: what a plugin began and did not finish is taken away by its DEL too.
        self._attached.append((item, result))
        for plugin in item.plugins:
            completed = await self._call("ADD", item, plugin | {"prevResult": result} if result else plugin)
            if completed.status != 0:
                why = multus.complaint(completed.output, completed.errors)
                raise SandboxFailed(
                    f"[{self._pod.key}/{self._pod.uid}:{item.nad.name}]: error adding container to network "
                    f'"{item.nad.name}": plugin type="{plugin["type"]}" failed (add): {why}'
                )
            result = multus.result(completed.output)
            self._attached[-1] = (item, result)

    async def _call(self, command: str, item: Attachment, plugin: Raw) -> CompletedProcess:
        words = multus.call(command, self._pod, item.interface, plugin)
        return await self._hosts.run(self._node, *words, given=json.dumps(plugin))

    async def _command(self, *words: str) -> None:
        completed = await self._hosts.run(self._node, *words)
        if completed.status != 0:
            raise SandboxFailed(f"{' '.join(words)}: {completed.errors.strip() or completed.status}")


_REMOVE = '[ ! -e "/run/netns/$1" ] || ip netns delete "$1"'
