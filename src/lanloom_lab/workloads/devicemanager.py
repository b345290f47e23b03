"""A kubelet's device manager, on grpclib and protobuf: another implementation of gRPC than the agent's own.

Registration, a stream of devices for each plugin, allocation by resource, the answer that is kept in a checkpoint and
given again when a pod's container restarts, and a restart that removes the sockets.

As a program on a node it reads lines and answers each with one: `allocate UID RESOURCE...` with the pod's devices by
resource as JSON, or `{"error": ...}`; `release UID` with `{}`.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server, Stream

from lanloom.node.files import replace_at

CHECKPOINT = "kubelet_internal_checkpoint"
PLUGIN_SECONDS = 10.0
"""How long a plugin may take to register before its devices count as missing."""

_TEXT, _BOOL, _INT32, _MESSAGE = 9, 8, 5, 11
_MESSAGES: dict[str, list[tuple[str, int, int, bool, str]]] = {
    "Empty": [],
    "DevicePluginOptions": [
        ("pre_start_required", 1, _BOOL, False, ""),
        ("get_preferred_allocation_available", 2, _BOOL, False, ""),
    ],
    "RegisterRequest": [
        ("version", 1, _TEXT, False, ""),
        ("endpoint", 2, _TEXT, False, ""),
        ("resource_name", 3, _TEXT, False, ""),
        ("options", 4, _MESSAGE, False, "DevicePluginOptions"),
    ],
    "Device": [("ID", 1, _TEXT, False, ""), ("health", 2, _TEXT, False, "")],
    "ListAndWatchResponse": [("devices", 1, _MESSAGE, True, "Device")],
    "ContainerAllocateRequest": [("devices_ids", 1, _TEXT, True, "")],
    "AllocateRequest": [("container_requests", 1, _MESSAGE, True, "ContainerAllocateRequest")],
    "DeviceSpec": [
        ("container_path", 1, _TEXT, False, ""),
        ("host_path", 2, _TEXT, False, ""),
        ("permissions", 3, _TEXT, False, ""),
    ],
    "ContainerAllocateResponse": [("devices", 3, _MESSAGE, True, "DeviceSpec")],
    "AllocateResponse": [("container_responses", 1, _MESSAGE, True, "ContainerAllocateResponse")],
    "PreStartContainerRequest": [("devices_ids", 1, _TEXT, True, "")],
    "PreStartContainerResponse": [],
    "ContainerPreferredAllocationRequest": [
        ("available_deviceIDs", 1, _TEXT, True, ""),
        ("must_include_deviceIDs", 2, _TEXT, True, ""),
        ("allocation_size", 3, _INT32, False, ""),
    ],
    "PreferredAllocationRequest": [
        ("container_requests", 1, _MESSAGE, True, "ContainerPreferredAllocationRequest")
    ],
    "ContainerPreferredAllocationResponse": [("deviceIDs", 1, _TEXT, True, "")],
    "PreferredAllocationResponse": [
        ("container_responses", 1, _MESSAGE, True, "ContainerPreferredAllocationResponse")
    ],
}
_ANSWERS = {
    "GetDevicePluginOptions": ("Empty", "DevicePluginOptions"),
    "Allocate": ("AllocateRequest", "AllocateResponse"),
    "GetPreferredAllocation": ("PreferredAllocationRequest", "PreferredAllocationResponse"),
    "PreStartContainer": ("PreStartContainerRequest", "PreStartContainerResponse"),
}


def _classes() -> dict[str, Any]:
    """Return the messages of the device plugin API v1beta1."""
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package="v1beta1", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            label = 3 if repeated else 1
            extra: Any = {"type_name": f".v1beta1.{of}"} if of else {}
            message.field.add(name=field, number=number, type=kind, label=label, **extra)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1beta1.{name}"))
        for name in _MESSAGES
    }


MESSAGES = _classes()


class Plugin:
    """A plugin that has registered: its connection, and what it advertises."""

    def __init__(self, path: Path) -> None:
        self.channel = Channel(path=str(path))
        self.devices: dict[str, str] = {}
        self.lists: list[dict[str, str]] = []
        self.stopped = False
        self.task: asyncio.Task[None] | None = None

    async def call(self, method: str, **fields: Any) -> Any:
        """One call. Raises GRPCError."""
        given, answer = _ANSWERS[method]
        path = f"/v1beta1.DevicePlugin/{method}"
        call = UnaryUnaryMethod(self.channel, path, MESSAGES[given], MESSAGES[answer])
        return await call(MESSAGES[given](**fields), timeout=60)


class Unschedulable(Exception):
    """There is no healthy free device of a resource."""


class DeviceManager:
    """The device manager of a kubelet, with its sockets in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plugins: dict[str, Plugin] = {}
        self.registrations: list[str] = []
        self.refusal: GRPCError | None = None
        self.refused = asyncio.Event()
        self._server: Server | None = None
        self._given: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Remove what is in the directory, but for the checkpoint, and listen."""
        self.directory.mkdir(exist_ok=True)
        for path in self.directory.iterdir():
            if path.name == CHECKPOINT:
                self._given = _read_checkpoint(path)
            else:
                path.unlink()
        self._server = Server([self])
        await self._server.start(path=str(self.directory / "kubelet.sock"))

    async def stop(self) -> None:
        """End, as a kubelet that is killed: the plugins' sockets stay."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for plugin in self.plugins.values():
            await self._drop(plugin)
        self.plugins.clear()

    async def restart(self) -> None:
        """End and start again."""
        await self.stop()
        self._given = {}
        await self.start()

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the service, as grpclib wants it."""
        kinds = (MESSAGES["RegisterRequest"], MESSAGES["Empty"])
        return {"/v1beta1.Registration/Register": Handler(self._register, Cardinality.UNARY_UNARY, *kinds)}

    async def _register(self, stream: "Stream[Any, Any]") -> None:
        request = await stream.recv_message()
        assert request is not None
        if self.refusal is not None:
            self.refused.set()
            raise self.refusal
        if request.version != "v1beta1":
            raise GRPCError(
                Status.INVALID_ARGUMENT, f"requested API version {request.version!r} is not supported"
            )
        domain, _, name = request.resource_name.partition("/")
        if not domain or not name or domain.endswith("kubernetes.io"):
            raise GRPCError(Status.INVALID_ARGUMENT, f"invalid resource name {request.resource_name!r}")
        old = self.plugins.pop(request.resource_name, None)
        if old is not None:
            await self._drop(old)
        plugin = self.plugins[request.resource_name] = Plugin(self.directory / request.endpoint)
        plugin.task = asyncio.create_task(self._listen(request.resource_name, plugin))
        self.registrations.append(request.resource_name)
        await stream.send_message(MESSAGES["Empty"]())

    async def _listen(self, resource: str, plugin: Plugin) -> None:
        kinds = (MESSAGES["Empty"], MESSAGES["ListAndWatchResponse"])
        method = UnaryStreamMethod(plugin.channel, "/v1beta1.DevicePlugin/ListAndWatch", *kinds)
        try:
            async with method.open() as stream:
                await stream.send_message(MESSAGES["Empty"](), end=True)
                async for message in stream:
                    plugin.devices = {device.ID: device.health for device in message.devices}
                    plugin.lists.append(plugin.devices)
                    await self._notify()
        except (OSError, GRPCError, StreamTerminatedError):
            pass
        plugin.stopped = True
        plugin.devices = dict.fromkeys(plugin.devices, "Unhealthy")
        plugin.channel.close()
        await self._notify()

    async def _drop(self, plugin: Plugin) -> None:
        if plugin.task is not None:
            plugin.task.cancel()
            await asyncio.gather(plugin.task, return_exceptions=True)
        plugin.channel.close()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so, by what plugins said."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def until_allocatable(self, expected: Mapping[str, int]) -> None:
        """Wait until these resources, and no others, have that many healthy devices."""

        def reached() -> bool:
            found = {name: self.allocatable(name) for name in self.plugins}
            return {name: count for name, count in found.items() if count} == dict(expected)

        await self.until(reached)

    def allocatable(self, resource: str) -> int:
        """Return how many healthy devices there are of a resource."""
        plugin = self.plugins.get(resource)
        return sum(health == "Healthy" for health in plugin.devices.values()) if plugin else 0

    async def allocate(self, pod: str, *resources: str) -> list[str]:
        """Start a container of a pod that asks for one device of each resource: its character devices' paths.

        Raises Unschedulable, GRPCError.
        """
        given = self._given.setdefault(pod, {})
        for resource in resources:
            if resource not in given:
                given[resource] = await self._allocated(resource)
                replace_at(self.directory / CHECKPOINT, json.dumps(self._given).encode())
        return [path for resource in resources for path in given[resource]["paths"]]

    async def _allocated(self, resource: str) -> dict[str, Any]:
        plugin = self.plugins.get(resource)
        taken = {each[resource]["id"] for each in self._given.values() if resource in each}
        healthy = [name for name, health in (plugin.devices if plugin else {}).items() if health == "Healthy"]
        free = [name for name in healthy if name not in taken]
        if plugin is None or not free:
            raise Unschedulable(resource)
        container = MESSAGES["ContainerAllocateRequest"](devices_ids=free[:1])
        answer = await plugin.call("Allocate", container_requests=[container])
        (response,) = answer.container_responses
        assert all(device.permissions == "rw" for device in response.devices)
        assert all(device.container_path == device.host_path for device in response.devices)
        return {"id": free[0], "paths": [device.host_path for device in response.devices]}

    def release(self, pod: str) -> None:
        """Release what the pod had, which has ended."""
        self._given.pop(pod, None)

    def devices_of(self, pod: str) -> dict[str, str]:
        """Return the id of the pod's device of each resource, as Multus asks kubelet for it."""
        return {resource: each["id"] for resource, each in self._given.get(pod, {}).items()}


def _read_checkpoint(path: Path) -> dict[str, dict[str, Any]]:
    """Return the devices of each pod; none from a file that an older version left cut at a loss of power."""
    try:
        found: dict[str, dict[str, Any]] = json.loads(path.read_text())
    except ValueError:
        return {}
    return found


async def serve(directory: Path, lines: asyncio.StreamReader) -> None:
    """Answer lines until there are no more."""
    manager = DeviceManager(directory)
    await manager.start()
    try:
        while line := (await lines.readline()).decode():
            print(json.dumps(await _answer(manager, *line.split())), flush=True)
    finally:
        await manager.stop()


async def _answer(manager: DeviceManager, verb: str, uid: str, *resources: str) -> dict[str, str]:
    if verb == "release":
        manager.release(uid)
        return {}
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            # Plugins register when they find the socket, a moment after this program has begun.
            await manager.until(lambda: all(manager.allocatable(resource) for resource in resources))
        await manager.allocate(uid, *resources)
    except (TimeoutError, Unschedulable):
        missing = [resource for resource in resources if not manager.allocatable(resource)]
        return {"error": f"Insufficient {', '.join(missing or resources)}"}
    except (GRPCError, StreamTerminatedError, OSError) as error:
        return {"error": f"Allocate failed due to {error}, which is unexpected"}
    return manager.devices_of(uid)


async def _main() -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await serve(Path(sys.argv[1]), lines)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(_main())
