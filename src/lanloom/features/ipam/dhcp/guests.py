"""The NIC of a client, its network and its NAD, as the API server has them or had them a moment ago.

What was read is kept for those who ask often, and for all while the API server does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.ipam import Nic
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VirtualMachineInstance
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.ipam.agent.cnitypes import IpamConfig, parse_ipam
from lanloom.features.ipam.agent.knownnics import find_nic
from lanloom.features.ipam.agent.nics import find_network
from lanloom.features.ipam.agent.pods import (
    PLUGIN,
    Holder,
    config_of,
    launcher_of,
    machine_holder,
    machine_network,
    moved_holder,
    pod_holder,
)
from lanloom.features.ipam.dhcp.answers import Given
from lanloom.features.ipam.dhcp.answers6 import Given6
from lanloom.features.ipam.dhcp.clients import Client
from lanloom.features.ipam.dhcp.given import given6_to, given_to
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.state import network_of
from lanloom.kube import ports
from lanloom.kube.errors import ServerError, TransportError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.store import Store
from lanloom.refusals import Malformed
from lanloom.runtime.cni.calls import Call, CniError

K = TypeVar("K")
V = TypeVar("V")

SECONDS = 10.0
"""How old an answer may be: one exchange of a client, and many clients that start at once, ask once."""


class Recent(Generic[K, V]):
    """Values of `read` by key, each for so many seconds. All who ask for one that is being read wait for the same."""

    def __init__(self, read: Callable[[K], Awaitable[V]], seconds: float = SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._known: dict[K, tuple[float, V]] = {}
        self._reading: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K) -> V:
        """Return the value. Raises what `read` raises, unless the server is away and the value was known before."""
        known = self._known.get(key)
        if known is not None and asyncio.get_running_loop().time() - known[0] < self._seconds:
            return known[1]
        if key not in self._reading:
            self._reading[key] = asyncio.create_task(self._renew(key))
            self._reading[key].add_done_callback(_retrieve_error)
        task = self._reading[key]
        try:
            return await asyncio.shield(task)
        except (TransportError, ServerError):
            if known is None:
                raise
            return known[1]

    async def _renew(self, key: K) -> V:
        began = asyncio.get_running_loop().time()
        try:
            value = await self._read(key)
            self._known[key] = began, value
            return value
        finally:
            del self._reading[key]

    def keep(self, keys: Collection[K]) -> None:
        """Forget all others."""
        for key in self._known.keys() - set(keys):
            del self._known[key]

    def values(self) -> Iterator[V]:
        """Return what is known."""
        return (value for _, value in self._known.values())

    async def close(self) -> None:
        """End what is being read."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task


def _retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Retrieve the error of a read, for which no task may wait any more: asyncio would log it."""
    if not task.cancelled():
        task.exception()


class Guest(Struct, frozen=True, kw_only=True):
    """What a client's answers follow from. `host` is the name of the pod or machine, `mac` its hardware address.

    A machine may have another one than its interface in the pod, behind KubeVirt's bridge.
    """

    mac: str
    nic: Nic
    network: Network
    config: IpamConfig
    host: str

    def given(self, mtu: int) -> Given | None:
        """Return what the guest gets by DHCPv4, on a link with that MTU."""
        return given_to(self.nic, self.network, self.config, host=self.host, mtu=mtu)

    def given6(self, mtu: int) -> Given6 | None:
        """Return what the guest gets over IPv6, on a link with that MTU."""
        return given6_to(self.nic, self.network, self.config, mtu=mtu)


class Guests:
    """Reads guests; `pods` are those of the node. What was read counts for so many seconds.

    Every method raises KubeError.
    """

    def __init__(self, client: ports.Client, pods: Store[Pod], *, seconds: float = SECONDS) -> None:
        self._client = client
        self._pods = pods
        self._nads: Recent[Key, NetworkAttachmentDefinition | None] = Recent(self._read_nad, seconds)
        self._networks: Recent[str, Network | None] = Recent(self._read_network, seconds)
        self._guests: Recent[Client, Guest | None] = Recent(self._read, seconds)

    async def nad(self, key: Key) -> NetworkAttachmentDefinition | None:
        """Return a NAD; None if there is none."""
        return await self._nads.get(key)

    async def find(self, client: Client) -> Guest | None:
        """Return the guest of a client; None where it has no NIC, or its NAD or network are gone or can't be read."""
        return await self._guests.get(client)

    def keep(self, clients: frozenset[Client], nads: frozenset[Key]) -> None:
        """Forget what is known of others."""
        self._guests.keep(clients)
        self._nads.keep(nads)
        self._networks.keep({guest.config.network for guest in self._guests.values() if guest is not None})

    async def close(self) -> None:
        """End all requests."""
        for each in (self._guests, self._networks, self._nads):
            await each.close()

    async def _read_nad(self, key: Key) -> NetworkAttachmentDefinition | None:
        return await get_or_none(self._client, NADS, key)

    async def _read_network(self, ident: str) -> Network | None:
        try:
            return network_of(await find_network(self._client, ident))
        except (CniError, Malformed):
            return None

    async def _read(self, client: Client) -> Guest | None:
        pod, nad = self._pods.get(client.pod), await self.nad(client.nad)
        config = config_of(nad) if nad is not None else None
        if pod is None or pod.metadata.uid != client.uid or config is None:
            return None
        carried = launcher_of(pod)
        machine = await self._machine(pod, carried) if carried is not None else None
        if carried is not None and machine is None:
            return None
        holder, call = _holder(pod, machine, client, config)
        try:
            parsed = parse_ipam(config)
        except CniError:
            return None
        network = await self._networks.get(parsed.network)
        nic = await find_nic(self._client, holder, call)
        if network is None or nic is None:
            return None
        owner = pod if machine is None else machine
        mac = client.mac if machine is None else _mac_of(machine, client)
        return Guest(mac=mac, nic=nic, network=network, config=parsed, host=owner.metadata.name)

    async def _machine(self, pod: Pod, carried: OwnerReference) -> VirtualMachineInstance | None:
        key = Key(pod.metadata.namespace, carried.name)
        machine = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, key)
        return machine if machine is not None and machine.metadata.uid == carried.uid else None


def _holder(
    pod: Pod, machine: VirtualMachineInstance | None, client: Client, config: dict[str, object]
) -> tuple[Holder, Call]:
    """Return who has the NIC of a client, and the call of the plugin that made it."""
    call = Call(program=PLUGIN, command="ADD", config=config, interface=client.interface)
    if machine is None:
        return pod_holder(pod, call), call
    network = machine_network(machine, client.interface)
    if network is None:
        return machine_holder(pod, machine, call), call
    return moved_holder(machine, pod, network[1], client.nad, config)


def _mac_of(machine: VirtualMachineInstance, client: Client) -> str:
    """Return the address that the machine asks for, or was given, else that of its interface in the pod."""
    network = machine_network(machine, client.interface)
    name = network[1] if network is not None else ""
    wanted = (item.mac_address for item in machine.spec.interfaces if item.name == name)
    given = (item.mac for item in machine.status.interfaces if item.name == name)
    mac = next(filter(None, (*wanted, *given)), client.mac)
    return mac.lower().replace("-", ":")
