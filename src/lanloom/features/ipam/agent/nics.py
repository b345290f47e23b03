"""NICs as this node's agent wants, makes, waits for and deletes them.

Two calls for one NIC at once end with the same one. All calls wait by one watch of this node's NICs (`NodeNics`): a
watch for each would cost each a new connection. Where that watch can't help, a call watches its one NIC (`until`).
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from random import Random
from typing import Any

import structlog
from msgspec import to_builtins

from lanloom.api.ipam import (
    ADDRESSES,
    CONTAINER,
    FINALIZER,
    LINK,
    MACHINE_LABEL,
    MOVED_NADS,
    NAD,
    NETWORK_NAME,
    NETWORKS,
    NICS,
    NODE_LABEL,
    POD,
    STICKY_FOR,
    VIRTUAL_MACHINE,
    Network,
    Nic,
    NicSpec,
    label_value,
    nads_of,
)
from lanloom.api.meta import Key, ObjectMeta
from lanloom.features.ipam.agent.cnitypes import MOST, IpamConfig, parse_wanted
from lanloom.features.ipam.agent.pods import Holder
from lanloom.features.ipam.rules.addresses import format_address, parse_range
from lanloom.features.ipam.rules.names import is_uuid, object_name
from lanloom.features.ipam.rules.shares import is_list_of_ordinals, ordinal_of
from lanloom.features.ipam.state import State, answer
from lanloom.kube.controller import backoff
from lanloom.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.lookup import get_or_none, ignore_not_found
from lanloom.kube.ports import Client, WatchEvent
from lanloom.refusals import Denied, Malformed
from lanloom.runtime.cni.calls import BAD_CONFIG, REFUSED, Call, CniError

log = structlog.get_logger(__name__)

_FORM = 'it must be a JSON object such as {"net1": ["192.0.2.4", "pool"]}'


def requested_ips(annotations: Mapping[str, str], holder: Holder, config: IpamConfig) -> tuple[str, ...]:
    """Compute a NIC's `spec.ips` from the pod's annotation, else from the configuration. Raises CniError."""
    requested = _parse(annotations.get(ADDRESSES, "{}"))
    chosen = next((requested[name] for name in holder.known_as if name in requested), config.wanted)
    try:
        return resolved(chosen, holder.owner.name)
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"addresses of {holder.interface}: {error}") from None


def resolved(wanted: Sequence[str], pod: str) -> tuple[str, ...]:
    """Return requests with the pod's own address for each list by ordinal. Raises Malformed."""
    return tuple(_address_of_ordinal(text, pod) if is_list_of_ordinals(text) else text for text in wanted)


def _address_of_ordinal(text: str, pod: str) -> str:
    """Return the address of a range that belongs to a pod: the first one for ordinal 0. Raises Malformed."""
    range_, ordinal = parse_range(text), ordinal_of(pod)
    if ordinal is None:
        raise Malformed(
            f"{text} is a list by ordinal, but pod {pod} has none; use it in the template of a StatefulSet"
        )
    if ordinal.number >= range_.size:
        raise Malformed(
            f"{text} has no address for ordinal {ordinal.number} of {ordinal.stateful_set}; add more addresses"
        )
    return format_address(range_.first + ordinal.number)


def unused(annotations: Mapping[str, str], names: frozenset[str]) -> tuple[str, ...]:
    """Return the entries of the annotation that mean none of these interfaces and NADs. Raises CniError."""
    return tuple(sorted(set(_parse(annotations.get(ADDRESSES, "{}"))) - names))


def _parse(text: str) -> dict[str, tuple[str, ...]]:
    try:
        requested = json.loads(text)
    except (ValueError, RecursionError):
        raise CniError(BAD_CONFIG, f"annotation {ADDRESSES} is not valid JSON; {_FORM}") from None
    if not isinstance(requested, dict) or len(requested) > MOST:
        raise CniError(BAD_CONFIG, f"annotation {ADDRESSES} can't be read; {_FORM}")
    return {name: _list(name, value) for name, value in requested.items()}


def _list(name: str, value: Any) -> tuple[str, ...]:
    field = f"annotation {ADDRESSES}: {name[:60]!r}"
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CniError(BAD_CONFIG, f"{field}: must be a list of addresses and names of pools; {_FORM}")
    if not 0 < len(value) <= MOST:
        raise CniError(BAD_CONFIG, f"{field}: must have 1 to {MOST} entries")
    return parse_wanted(field, value)


def nic_body(holder: Holder, network: str, ips: tuple[str, ...], call: Call, node: str) -> dict[str, Any]:
    """Return a new NIC, marked so that its use can be checked later.

    A machine's moves about, and so does one of a name.
    """
    own = holder.owner.kind == POD
    marks = {NETWORK_NAME: call.network_name, CONTAINER: call.container, LINK: call.interface}
    if not own or holder.sticky_for:
        marks = {NAD: holder.nad} if holder.nad else {}
    if holder.sticky_for:
        marks[STICKY_FOR] = holder.sticky_for
    meta = ObjectMeta(
        name=holder.nic,
        namespace=holder.namespace,
        labels=_labels(holder, node),
        annotations=marks,
        finalizers=(FINALIZER,),
        owner_references=() if holder.sticky_for else (holder.reference,),
    )
    spec = NicSpec(
        owner=holder.owner, network=network, ips=ips, index=holder.index, interface=holder.interface
    )
    return {"metadata": to_builtins(meta), "spec": to_builtins(spec)}


def _labels(holder: Holder, node: str) -> dict[str, str]:
    if holder.owner.kind == VIRTUAL_MACHINE:
        return {MACHINE_LABEL: label_value(holder.owner.name)}
    return {} if holder.sticky_for else {NODE_LABEL: label_value(node)}


def change(nic: Nic, body: dict[str, Any], *, may_change: bool = True) -> dict[str, Any] | None:
    """Compute the patch by which an existing NIC takes the place of a new one; None if it is empty.

    It makes the requests of the new one if it `may_change`, and is marked with its machine and NAD in any case.
    """
    wanted, annotations = body["spec"], body["metadata"].get("annotations", {})
    network, ips, sticky_for = wanted["network"], tuple(wanted["ips"]), annotations.get(STICKY_FOR)
    spec: dict[str, Any] = {}
    if may_change and (nic.spec.network, nic.spec.ips) != (network, ips):
        spec = {"network": network, "ips": list(ips), "release": None}
    marks: dict[str, str | None] = {}
    if may_change and sticky_for and nic.metadata.annotations.get(STICKY_FOR) != sticky_for:
        marks = {STICKY_FOR: sticky_for}
    known, nad = nads_of(nic), annotations.get(NAD)
    if known and nad and nad not in known:
        marks |= marked((*known, nad))
    mark = body["metadata"].get("labels", {}).get(MACHINE_LABEL)
    labels = {MACHINE_LABEL: mark} if mark and nic.metadata.labels.get(MACHINE_LABEL) != mark else {}
    if not spec and not marks and not labels:
        return None
    version = nic.metadata.resource_version
    return {"metadata": {"resourceVersion": version, "labels": labels, "annotations": marks}, "spec": spec}


def marked(nads: Sequence[str]) -> dict[str, str | None]:
    """Return the annotations of a machine's NIC that has moved between these NADs."""
    return {NAD: None, MOVED_NADS: ",".join(nads)}


TRIES = 5
"""How often a NIC is read again that others change at the same time."""


async def find_network(client: Client, ident: str) -> Network:
    """Return the network that a NAD names: by UUID, object name or name. Raises CniError, KubeError.

    Usually the ident is the object's own name: one small request. The author of a NAD chooses the ident: `../x` must
    not become part of a path that the agent asks for.
    """
    if object_name(ident) == ident and not is_uuid(ident):
        with suppress(NotFound, BadRequest):
            return await client.get(NETWORKS, ident)
    networks = await client.list(NETWORKS)
    try:
        return State(networks.items, ()).find_referred(ident)
    except Denied as error:
        raise CniError(REFUSED, str(error)) from None


async def settle_nic(
    client: Client, body: dict[str, Any], namespace: str, *, may_change: bool, is_new: bool = False
) -> Nic:
    """Return the NIC of that body: made, or found and, where it may change, brought to the same spec.

    One that `is_new`, most likely, is made without a look. Raises CniError, KubeError.
    """
    name, wanted = body["metadata"]["name"], body["spec"]
    refused: ApiError | None = None
    if is_new:
        try:
            return await client.create(NICS, body, namespace)
        except (AlreadyExists, BadRequest, Forbidden, Invalid) as error:
            refused = error  # perhaps only because of the NIC that there is
    for _ in range(TRIES):
        nic = await get_or_none(client, NICS, Key(namespace, name))
        if nic is None and refused is not None and not isinstance(refused, AlreadyExists):
            raise refused
        if nic is None:
            with suppress(AlreadyExists):
                return await client.create(NICS, body, namespace)
            continue
        _check_owner(nic, wanted)
        patch = change(nic, body, may_change=may_change)
        if patch is None:
            return nic
        with suppress(Conflict, NotFound):
            return await client.patch(NICS, name, patch, namespace)
    raise CniError(
        REFUSED,
        f"Nic {namespace}/{name} is changed continuously by another client; find the client that writes it",
    )


async def hold_nic(client: Client, nic: Nic, container: str) -> Nic:
    """Write down who uses a NIC of a machine or a name that is being deleted, before it is used. Raises KubeError.

    A manager that found it unused before can't delete it any more, because it has another version; one that looks after
    that finds the pod.
    """
    meta = nic.metadata
    if not meta.is_deleting or not (nic.spec.owner.kind == VIRTUAL_MACHINE or nic.is_sticky):
        return nic
    marks = {"resourceVersion": meta.resource_version, "annotations": {CONTAINER: container}}
    return await client.patch(NICS, meta.name, {"metadata": marks}, meta.namespace)


def _check_owner(nic: Nic, wanted: dict[str, Any]) -> None:
    owner = nic.spec.owner
    if (owner.kind, owner.name, owner.uid) != tuple(
        wanted["owner"].get(key, "") for key in ("kind", "name", "uid")
    ):
        raise CniError(
            REFUSED,
            f"Nic {nic.metadata.key} belongs to {owner.kind} {owner.name}, not to this workload; delete the NIC",
        )


async def delete_nic(client: Client, key: Key, uid: str = "") -> None:
    """Request a NIC's deletion; one that is not there, or not the one meant, is no error. Raises KubeError."""
    with suppress(Conflict), ignore_not_found(key.name):
        await client.delete(NICS, key.name, key.namespace, uid=uid)


IDLE_SECONDS = 60.0
"""How long the watch of a node's NICs goes on when no call waits."""

Events = asyncio.Queue[WatchEvent[Nic] | None]
"""What the watch brings of one NIC; None when it has ended."""


class NodeNics:
    """One watch of the NICs of this node's pods for all calls that wait. It begins with the first one.

    It begins at the version of that call's NIC, without a list: a cluster has many NICs.
    """

    def __init__(self, client: Client, node: str, rng: Random) -> None:
        self._client = client
        self._node = label_value(node)
        self._rng = rng
        self._calls: dict[Key, set[Events]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._since = 0
        self._end: asyncio.TimerHandle | None = None

    @contextmanager
    def following(self, key: Key) -> Iterator[Events]:
        """Collect what the watch brings of a NIC; begin before the NIC is made or read, so that nothing is missed."""
        if self._end is not None:
            self._end.cancel()
        events: Events = asyncio.Queue()
        self._calls.setdefault(key, set()).add(events)
        try:
            yield events
        finally:
            self._calls[key].remove(events)
            if not self._calls[key]:
                del self._calls[key]
            if not self._calls and self._watch is not None:
                self._end = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._watch.cancel)

    async def until(self, nic: Nic, events: Events, good: Callable[[Nic | None], bool]) -> Nic | None:
        """Wait as `until` does, for a NIC that was made or read since `following` began. Raises KubeError."""
        if self._covers(nic):
            while (
                (event := await events.get()) is not None and event.type != "DELETED" and not event.unreadable
            ):
                found = event.object
                if found.metadata.version >= nic.metadata.version and good(found):
                    return found
        return await until(self._client, nic, good, self._rng)

    def _covers(self, nic: Nic) -> bool:
        """Return whether the watch brings every change of a NIC after its version; begin it if there is none."""
        meta = nic.metadata
        if meta.labels.get(NODE_LABEL) != self._node:
            return False
        if self._watch is None:
            self._since = meta.version
            self._watch = asyncio.create_task(self._follow(meta.resource_version))
        return self._since <= meta.version

    async def _follow(self, version: str) -> None:
        labels = f"{NODE_LABEL}={self._node}"
        try:
            watch = self._client.watch(NICS, resource_version=version, labels=labels)
            async with aclosing(watch) as stream:
                async for event in stream:
                    for events in self._calls.get(event.object.metadata.key, ()):
                        events.put_nowait(event)
        except KubeError as error:
            log.debug("nics-not-followed", error=str(error))
        finally:
            self._watch = None
            for calls in self._calls.values():
                for events in calls:
                    events.put_nowait(None)


async def until(client: Client, nic: Nic, good: Callable[[Nic | None], bool], rng: Random) -> Nic | None:
    """Return the first state of a NIC after this one (None: there is none) that is good.

    A server that is away is asked again, endlessly. Raises other errors of the API; give it a time limit.
    """
    key, failures = nic.metadata.key, 0
    version = nic.metadata.resource_version
    while True:
        try:
            async with aclosing(_states(client, key, version)) as states:
                async for found in states:
                    failures = 0
                    if good(found):
                        return found
        except Gone:
            pass
        except (TransportError, ServerError):
            failures += 1
            await asyncio.sleep(backoff(failures, rng, first=0.2, cap=5.0))
        version = ""


async def _states(client: Client, key: Key, version: str) -> AsyncGenerator[Nic | None, None]:
    """Yield the NIC after each change since a version, until the watch ends; without one also as it is now."""
    fields = f"metadata.name={key.name}"
    if not version:
        listing = await client.list(NICS, key.namespace, fields=fields)
        yield listing.items[0] if listing.items else None
        version = listing.resource_version
    events = client.watch(NICS, key.namespace, resource_version=version, fields=fields)
    async with aclosing(events) as stream:
        async for event in stream:
            if event.type != "BOOKMARK":
                yield None if event.type == "DELETED" else event.object


def answered(nic: Nic | None) -> bool:
    """Return whether the allocator has looked at what the NIC asks for now; also where the NIC is gone."""
    return nic is None or answer(nic) != ""


def allocated(nic: Nic) -> bool:
    """Return whether the NIC has what it asks for now."""
    return answer(nic) == "True"
