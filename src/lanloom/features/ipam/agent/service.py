"""CNI commands: read the pod, create or delete its NIC, wait for the allocator, and return the result.

Nothing is kept here: the NIC's name follows from the pod or its machine, so a repeated call, a restarted agent and the
node that a machine migrates to all find what is there. Addresses are given by the allocator alone. Events on the pod
report what users should know.
"""

import asyncio
from random import Random
from typing import TypeVar

import structlog

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import (
    ADDRESSES,
    ALLOCATED,
    NETWORK_NAME,
    NETWORKS,
    NICS,
    NODE_LABEL,
    POD,
    STICKY_FOR,
    Network,
    Nic,
    label_value,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.meta import Key
from lanloom.features.ipam.agent.cnitypes import (
    IpamConfig,
    check_given,
    is_stale,
    parse_ipam,
    result_of,
)
from lanloom.features.ipam.agent.knownnics import find_name, find_nic
from lanloom.features.ipam.agent.nics import (
    Events,
    NodeNics,
    allocated,
    answered,
    delete_nic,
    find_network,
    hold_nic,
    nic_body,
    requested_ips,
    settle_nic,
    unused,
)
from lanloom.features.ipam.agent.pods import (
    Holder,
    PodRef,
    attachments,
    check_pod,
    is_attached,
    launcher_of,
    machine_holder,
    parse_args,
    pod_holder,
    pod_nic,
)
from lanloom.features.ipam.rules.shares import KINDS as NAMED
from lanloom.features.ipam.state import network_of
from lanloom.kube.conditions import find
from lanloom.kube.errors import (
    ApiError,
    KubeError,
    ServerError,
    TransportError,
)
from lanloom.kube.events import Recorder, reference
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.refusals import Refusal
from lanloom.runtime.cni.calls import (
    DIFFERENT,
    NOT_AVAILABLE,
    REFUSED,
    TRY_AGAIN,
    UNKNOWN_CONTAINER,
    Call,
    CniError,
    Raw,
    valid_attachments,
)

log = structlog.get_logger(__name__)


class PodEvents:
    """Write Events; never fail a call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def refused(self, pod: Pod, call: Call, error: CniError) -> None:
        """Tell that a pod gets no addresses, and that waiting alone won't help."""
        if error.code != TRY_AGAIN:
            message = f"No addresses for interface {call.interface}: {error.msg}"
            await self._recorder.event(reference(PODS, pod), "Warning", "NoAddresses", message)

    async def not_kept(self, pod: Pod, holder: Holder) -> None:
        """Tell that a pod asks to keep its addresses for its name, which does not come again."""
        if STICKY_FOR in pod.metadata.annotations and holder.named not in NAMED:
            message = (
                f"Annotation {STICKY_FOR} has no effect: a {holder.named} gives each pod a new name; "
                "use a StatefulSet"
            )
            await self._recorder.event(reference(PODS, pod), "Warning", "AddressesNotKept", message)

    async def unused(self, pod: Pod, holder: Holder) -> None:
        """Tell that a pod's annotation asks for addresses of an interface that it has not got."""
        attached = attachments(pod)
        if not attached:
            return  # what else it is attached to is not known
        own = pod.metadata.namespace
        nads = [item.nad for item in attached]
        names = {*holder.known_as, "eth0", *(item.interface for item in attached), *map(str, nads)}
        names.update(nad.name for nad in nads if nad.namespace == own)
        names.update(holder.others)
        if left := unused(pod.metadata.annotations, frozenset(names)):
            message = (
                f"Annotation {ADDRESSES}: {', '.join(left)} is neither an interface nor a NAD of this pod; "
                "ignored"
            )
            await self._recorder.event(reference(PODS, pod), "Warning", "UnusedAddresses", message[:1000])


ALLOCATION_SECONDS = 40.0
"""How long an ADD waits for its addresses: less than the program waits for us, and a runtime for the plugin."""

REQUEST_SECONDS = {"ADD": ALLOCATION_SECONDS, "DEL": 10.0, "CHECK": 15.0, "STATUS": 5.0, "GC": 40.0}

T = TypeVar("T")


class IpamService:
    """Answer the calls of one node's plugin."""

    def __init__(self, client: Client, node: str, recorder: Recorder, *, rng: Random) -> None:
        self._client = client
        self._node = node
        self._label = label_value(node)
        self._events = PodEvents(recorder)
        self._nics = NodeNics(client, node, rng)
        self._ending: set[asyncio.Task[None]] = set()
        self._commands = {
            "ADD": self._add,
            "DEL": self._delete,
            "CHECK": self._check,
            "STATUS": self._status,
            "GC": self._collect,
        }

    async def answer(self, call: Call) -> Raw:
        """Return the result of a call. Raises CniError."""
        seconds = REQUEST_SECONDS[call.command]
        try:
            async with asyncio.timeout(seconds):
                return await self._commands[call.command](call)
        except TimeoutError:
            raise CniError(
                TRY_AGAIN, f"the API server didn't answer within {seconds:.0f} s; try again later"
            ) from None
        except (TransportError, ServerError) as error:
            raise CniError(
                TRY_AGAIN, "the API server can't be reached now; try again later", str(error)
            ) from None
        except (ApiError, Refusal) as error:
            raise CniError(REFUSED, str(error)) from None

    async def _add(self, call: Call) -> Raw:
        # Neither read depends on the other; what is wrong with the pod is said first.
        pod, looked = await asyncio.gather(self._pod(call), self._network(call), return_exceptions=True)
        pod = _result(pod)
        try:
            config, network = _result(looked)
            nic = await self._allocate(call, config, pod, network)
            if nic.status.network != network.metadata.name:
                # It runs, and keeps what it had before the NAD was changed.
                network = await self._client.get(NETWORKS, nic.status.network)
            return result_of(nic, network_of(network), config)
        except CniError as error:
            await self._events.refused(pod, call, error)
            raise

    async def _network(self, call: Call) -> tuple[IpamConfig, Network]:
        config = parse_ipam(call.config)
        return config, await find_network(self._client, config.network)

    async def _allocate(self, call: Call, config: IpamConfig, pod: Pod, network: Network) -> Nic:
        holder = await self._holder(pod, call)
        ips = requested_ips(pod.metadata.annotations, holder, config)
        annotations = pod.metadata.annotations
        if holder.nad or network.spec.sticky_for or STICKY_FOR in annotations:
            holder = await find_name(self._client, holder, annotations, network, call, ips)
        await self._events.unused(pod, holder)
        await self._events.not_kept(pod, holder)
        body = nic_body(holder, network.metadata.name, ips, call, self._node)
        with self._nics.following(Key(holder.namespace, holder.nic)) as events:
            nic = await settle_nic(
                self._client, body, holder.namespace, may_change=not holder.runs, is_new=holder.is_of_pod
            )
            nic = await hold_nic(self._client, nic, call.container)
            return nic if allocated(nic) else await self._wait(nic, events)

    async def _wait(self, nic: Nic, events: Events) -> Nic:
        key, network = nic.metadata.key, nic.spec.network
        try:
            async with asyncio.timeout(ALLOCATION_SECONDS - 5.0):
                found = await self._nics.until(nic, events, answered)
        except TimeoutError:
            raise CniError(
                TRY_AGAIN,
                f"Nic {key} has no addresses of network {network} yet; is the manager running? Try again later",
            ) from None
        if found is None:
            raise CniError(TRY_AGAIN, f"Nic {key} was deleted during the request; try again later")
        if not allocated(found):
            condition = find(found.status.conditions, ALLOCATED)
            raise CniError(REFUSED, condition.message if condition else "", f"Nic {key}")
        return found

    async def _delete(self, call: Call) -> Raw:
        """Answer at once, and release the NIC then.

        The NIC has its addresses until the manager has read that the pod has ended, so it does not matter when that is.
        If it never is, the owner reference or the manager deletes the NIC.
        """
        task = asyncio.create_task(self._end(call))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return {}

    async def _end(self, call: Call) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS["DEL"]):
                await self._release(parse_args(call.args), call)
        except (KubeError, CniError, TimeoutError) as error:
            log.warning("nic-not-deleted", args=call.args[:500], error=str(error) or "no answer in time")

    async def _release(self, ref: PodRef, call: Call) -> None:
        """Delete a pod's own NIC, unless the pod goes on and will want it again (its sandbox is made again)."""
        pod = await get_or_none(self._client, PODS, ref.key)
        if pod is not None and ref.is_of(pod):
            ref = PodRef(ref.namespace, ref.name, pod.metadata.uid)
            leaves = pod.has_ended or pod.metadata.is_deleting
            if not leaves and is_attached(pod, call):
                return
        if ref.uid:
            await delete_nic(self._client, Key(ref.namespace, pod_nic(ref, call)))

    async def _check(self, call: Call) -> Raw:
        parse_ipam(call.config)
        ref = parse_args(call.args)
        nic = await get_or_none(self._client, NICS, Key(ref.namespace, pod_nic(ref, call)))
        if nic is None or nic.metadata.is_deleting or nic.metadata.labels.get(NODE_LABEL) != self._label:
            nic = await self._find(call)
        if not nic.status.ips:
            raise _without_addresses(nic.metadata.key)
        check_given(nic, call.config.get("prevResult"))
        return {}

    async def _find(self, call: Call) -> Nic:
        """Return the NIC of a pod that is not simply the pod's own; what is wrong with the pod is said first."""
        holder = await self._holder(await self._pod(call), call)
        nic = await find_nic(self._client, holder, call)
        if nic is None:
            raise _without_addresses(Key(holder.namespace, holder.nic))
        return nic

    async def _status(self, call: Call) -> Raw:
        config = parse_ipam(call.config)
        try:
            async with asyncio.timeout(REQUEST_SECONDS["STATUS"] - 1.0):
                await find_network(self._client, config.network)
        except (KubeError, TimeoutError) as error:
            raise CniError(NOT_AVAILABLE, "the API server can't list networks", str(error)) from None
        except CniError as error:
            raise CniError(NOT_AVAILABLE, error.msg) from None
        return {}

    async def _collect(self, call: Call) -> Raw:
        """Delete NICs of this node's pods that are none of the runtime's attachments, and whose pod has ended."""
        name, valid = call.network_name, valid_attachments(call.config)
        nics = await self._client.list(NICS, labels=f"{NODE_LABEL}={self._label}")
        for nic in nics.items:
            of_this = nic.metadata.annotations.get(NETWORK_NAME) == name and nic.spec.owner.kind == POD
            if of_this and is_stale(nic, valid) and not await self._lives(nic):
                await self._drop(nic)
        return {}

    async def _drop(self, nic: Nic) -> None:
        """Delete a NIC of a pod that has ended; one that can't be deleted is no reason to leave the others."""
        try:
            await delete_nic(self._client, nic.metadata.key, nic.metadata.uid)
        except ApiError as error:
            log.warning("nic-not-deleted", nic=str(nic.metadata.key), error=str(error))
        else:
            log.info("nic-collected", nic=str(nic.metadata.key))

    async def _lives(self, nic: Nic) -> bool:
        pod = await get_or_none(self._client, PODS, Key(nic.metadata.namespace, nic.spec.owner.name))
        return pod is not None and pod.metadata.uid == nic.spec.owner.uid and not pod.has_ended

    async def _pod(self, call: Call) -> Pod:
        ref = parse_args(call.args)
        pod = await get_or_none(self._client, PODS, ref.key)
        if pod is None:
            raise CniError(UNKNOWN_CONTAINER, f"pod {ref.key} does not exist")
        check_pod(pod, ref, self._node)
        return pod

    async def _holder(self, pod: Pod, call: Call) -> Holder:
        carried = launcher_of(pod)
        if carried is None:
            return pod_holder(pod, call)
        title = f"VirtualMachineInstance {pod.metadata.namespace}/{carried.name}"
        key = Key(pod.metadata.namespace, carried.name)
        machine = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, key)
        if machine is None:
            raise CniError(UNKNOWN_CONTAINER, f"{title} of pod {pod.metadata.name} does not exist")
        if machine.metadata.uid != carried.uid:
            raise CniError(
                UNKNOWN_CONTAINER, f"{title} was replaced: it is not the one of pod {pod.metadata.name}"
            )
        return machine_holder(pod, machine, call)


def _without_addresses(nic: Key) -> CniError:
    return CniError(DIFFERENT, f"Nic {nic} no longer has addresses; delete the pod")


def _result(outcome: T | BaseException) -> T:
    """Return what one of several requests at once found, or raise what it raised."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
