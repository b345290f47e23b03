"""The webhooks of isolated networks: networks, their NADs, and VlanConfigs.

`lanloom.nads.admission` validates the NADs that machines and pods name; `NetworkClaims` answers which namespaces each
admits.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial

from lanloom.api.admission import (
    AdmissionRequest,
    Unreadable,
    UserInfo,
    new_of,
    old_of,
)
from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.harvester import VLAN_CONFIGS, VlanConfig
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import links_of
from lanloom.features.dummy.reader import StoreReader, read_ranges
from lanloom.features.dummy.rules.admit import (
    NODE_GATEWAY,
    check_claims,
    check_config,
    check_foreign_nad,
    check_nad,
    check_nad_deletion,
    check_outsiders,
    check_place,
    check_subnet,
    check_unused,
    check_uplinks,
    concerns,
    leads_to,
    not_admitted,
)
from lanloom.features.dummy.rules.model import Isolated, owner_of
from lanloom.features.dummy.rules.objects import ipam_network
from lanloom.features.dummy.rules.spec import changes, changes_while_used, parse
from lanloom.features.dummy.rules.subnet import Ranges
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import cached_then_live, get_or_none, recheck
from lanloom.kube.ports import Client
from lanloom.nads.guard import Reservation, reservations_of, unsettled
from lanloom.nads.users import shared_live_users
from lanloom.refusals import Denied, Malformed
from lanloom.runtime.webhooktable import (
    EVERY,
    WRITTEN,
    TableAdmission,
    Webhook,
)
from lanloom.text import listed

Networks = Iterable[DummyClusterNetwork]


class ObjectValidator:
    """Validate what users write. `now` is in seconds since the epoch."""

    def __init__(
        self, client: Client, reader: StoreReader, in_flight: InFlight, *, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._reader = reader
        self._now = now
        self._users = shared_live_users(client)
        self._in_flight = in_flight
        in_flight.follow(DUMMY_CLUSTER_NETWORKS, reader.informers.dcns)
        in_flight.follow(VLAN_CONFIGS, reader.informers.configs)
        in_flight.follow(NADS, reader.informers.nads)

    async def network(
        self, new: DummyClusterNetwork | None, old: DummyClusterNetwork | None
    ) -> tuple[str, ...]:
        """Return the warnings about a DummyClusterNetwork. Raises Refusal, KubeError."""
        if new is None:
            return tuple(_deletion_warnings(self._reader, old)) if old is not None else ()
        if old is not None and old.spec == new.spec:
            return ()
        if old is not None:
            changes(old, new)
        net = parse(new)
        present = await self._list_networks()
        if old is None and any(item.metadata.name == net.name for item in present):
            return ()  # the API server answers AlreadyExists, which many expect
        if old is None or _places(old) != _places(new):
            await self._check_places(net, present)
        if old is not None and (old.spec.subnet, old.spec.gateway) != (new.spec.subnet, new.spec.gateway):
            changes_while_used(old, new, (await self._users.get()).users_of(net.nad))
        if net.subnets:
            known = await read_ranges(self._client, self._reader.nodes(), self._reader.settings)
            check_subnet(net, known, _readable(present))
        outsiders = await recheck(
            lambda nads: tuple(check_outsiders(new, old, nads)), self._nads_at(net.bridge)
        )
        warnings = [text async for text in self._warnings(net)]
        return tuple(dict.fromkeys((*outsiders, *self._check_in_flight(net, old, new), *warnings)))

    def _check_in_flight(
        self, net: Isolated, old: DummyClusterNetwork | None, new: DummyClusterNetwork
    ) -> Iterator[str]:
        """Yield warnings about what was allowed while the rest was read. Raises Denied.

        It comes last and reads nothing, so of two requests at once the second sees the first.
        """
        coming = [
            item for item in self._in_flight.of(DUMMY_CLUSTER_NETWORKS) if item.metadata.name != net.name
        ]
        if old is None or _places(old) != _places(new):
            check_claims(net, coming)
            check_place(net, self._in_flight.get(NADS, net.nad))
            check_uplinks(net, self._in_flight.of(VLAN_CONFIGS))
        if net.subnets:
            check_subnet(net, Ranges(), _readable(coming))
        yield from check_outsiders(new, old, self._in_flight.of(NADS))

    async def _nads_at(self, bridge: str) -> AsyncGenerator[list[NetworkAttachmentDefinition], None]:
        known = [nad for nad in self._reader.nads() if bridge in links_of(nad)]
        yield known
        live = [await get_or_none(self._client, NADS, nad.metadata.key) for nad in known]
        yield [nad for nad in live if nad is not None]

    async def config(self, new: VlanConfig | None, old: VlanConfig | None) -> None:
        """Refuse a VlanConfig that gives an isolated bridge an uplink. Raises Refusal, KubeError."""
        if new is not None:
            await self._recheck(partial(check_config, new, old))

    async def nad(
        self,
        new: NetworkAttachmentDefinition | None,
        old: NetworkAttachmentDefinition | None,
        *,
        by_manager: bool,
    ) -> None:
        """Check a NAD, of an isolated network or not. Raises Refusal, KubeError."""
        if not concerns(new, old):
            if new is not None and (old is None or old.spec != new.spec):
                await self._recheck(partial(check_foreign_nad, new, old))
            return
        await self._check_owned(new, old, by_manager=by_manager)
        if new is None and old is not None and not by_manager:
            await self._check_unused(old)

    async def addresses(self, new: Network | None, old: Network | None) -> tuple[str, ...]:
        """Return warnings about a Network, of an isolated network or not. Raises Denied, KubeError."""
        uid = next((one for item in (old, new) if item is not None and (one := owner_of(item))), "")
        known = next((item for item in self._reader.networks() if item.metadata.uid == uid), None)
        owner = await get_or_none(self._client, DUMMY_CLUSTER_NETWORKS, known.metadata.key) if known else None
        if owner is None or owner.metadata.uid != uid or owner.metadata.is_deleting:
            return ()
        with suppress(Malformed):
            if (net := parse(owner)).subnets:
                return ipam_network(net).check(new, old, f"DummyClusterNetwork {net.name}")
        return ()

    async def _check_owned(
        self,
        new: NetworkAttachmentDefinition | None,
        old: NetworkAttachmentDefinition | None,
        *,
        by_manager: bool,
    ) -> None:
        """Refuse an orphan; a NAD is none only because the store does not have its network."""

        def check(networks: Networks) -> None:
            if new is not None:
                check_nad(new, old, networks, by_manager=by_manager)
            elif old is not None:
                check_nad_deletion(old, networks, by_manager=by_manager)

        owners = {uid for nad in (new, old) if nad is not None and (uid := owner_of(nad))}
        stored = tuple(self._reader.networks())
        if owners <= {item.metadata.uid for item in stored}:
            await recheck(check, cached_then_live(stored, self._list_networks))
        else:
            check(await self._list_networks())

    async def _check_unused(self, nad: NetworkAttachmentDefinition) -> None:
        """Refuse the deletion of a NAD with users. A manager has checked that itself before it deletes one."""
        users, pending = await self._users.get(), tuple[Reservation, ...]()
        with suppress(ValueError):  # only managers write there; an unreadable note names no user
            pending = unsettled(reservations_of(nad), users.seen, self._now())
        check_unused(nad, users.users_of(nad.metadata.key), pending)

    async def _check_places(self, net: Isolated, present: Networks) -> None:
        """Check that bridge and NAD are free."""
        check_claims(net, present)
        check_place(net, await get_or_none(self._client, NADS, net.nad))
        views = cached_then_live(tuple(self._reader.configs()), self._list_configs)
        await recheck(partial(check_uplinks, net), views)

    async def _recheck(self, check: Callable[[Networks], None]) -> None:
        views = cached_then_live(tuple(self._reader.networks()), self._list_networks)
        await recheck(lambda known: check((*known, *self._in_flight.of(DUMMY_CLUSTER_NETWORKS))), views)

    async def _list_networks(self) -> tuple[DummyClusterNetwork, ...]:
        return (await self._client.list(DUMMY_CLUSTER_NETWORKS)).items

    async def _list_configs(self) -> tuple[VlanConfig, ...]:
        return (await self._client.list(VLAN_CONFIGS)).items

    async def _warnings(self, net: Isolated) -> AsyncIterator[str]:
        """Yield what may surprise later. A namespace may be created together with the network, so it need not exist."""
        if await get_or_none(self._client, NAMESPACES, Key("", net.nad.namespace)) is None:
            yield (
                f"spec.nadNamespace: namespace {net.nad.namespace} does "
                "not exist; the network becomes ready when it is created"
            )
        if net.gateway == "node":
            yield NODE_GATEWAY


def _places(item: DummyClusterNetwork) -> tuple[str, Key]:
    return item.spec.bridge_name, item.spec.nad


def _readable(networks: Networks) -> Iterator[Isolated]:
    for item in networks:
        with suppress(Malformed):
            yield parse(item)


def _deletion_warnings(reader: StoreReader, old: DummyClusterNetwork) -> Iterator[str]:
    if users := reader.users.users_of(old.spec.nad):
        yield (
            f"DummyClusterNetwork {old.metadata.name} is used by {listed(map(str, users))}; it remains until it has no "
            "users, and accepts no new ones"
        )


IsManager = Callable[[UserInfo], Awaitable[bool]]
"""Whether a manager asks."""


class NetworkClaims:
    """The NADs of isolated networks, and the namespaces that may use them; the `NadClaims` of this feature."""

    def __init__(self, client: Client, reader: StoreReader) -> None:
        self._client = client
        self._reader = reader

    def claimed(self) -> Collection[Key]:
        """Return every claimed NAD once, as far as the watches have brought them."""
        return dict.fromkeys(item.spec.nad for item in self._reader.networks())

    def is_limited(self, nad: Key) -> bool:
        """Return whether a NAD attaches to an isolated network that is not for all namespaces."""
        return any(self._reader.limited(nad))

    async def exclusion(self, nad: Key, namespace: str) -> str:
        """Return why objects of a namespace may not refer to a NAD at an isolated network; empty if they may."""
        for known in self._reader.limited(nad):
            if known.spec.admits(namespace):
                continue
            network = await get_or_none(self._client, DUMMY_CLUSTER_NETWORKS, known.metadata.key)
            if network is None or network.spec.admits(namespace):
                continue
            if leads_to(nad, await get_or_none(self._client, NADS, nad), network):
                return not_admitted(network, namespace)
        return ""


class DummyAdmission(TableAdmission):
    """Answer admission requests about isolated networks and their NADs.

    `now` is in seconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        reader: StoreReader,
        is_manager: IsManager,
        in_flight: InFlight,
        *,
        now: Callable[[], float],
    ) -> None:
        super().__init__(WEBHOOKS)
        self._is_manager = is_manager
        self._in_flight = in_flight
        self._objects = ObjectValidator(client, reader, in_flight, now=now)

    async def validate_network(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a DummyClusterNetwork."""
        new, old = new_of(DUMMY_CLUSTER_NETWORKS, request), old_of(DUMMY_CLUSTER_NETWORKS, request)
        if request.sub_resource and new is not None:
            if not await self._is_manager(request.user_info):
                raise Denied(
                    f"DummyClusterNetwork {new.metadata.name}: status is written by Lanloom's manager only; "
                    "change the spec instead"
                )
            return ()
        warnings = await self._objects.network(new, old)
        if new is not None:
            self._in_flight.add(DUMMY_CLUSTER_NETWORKS, request, new, old)
        return warnings

    async def validate_nad(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a NAD."""
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return ()  # a tenant's, as far as is known; the webhook of VLANs says what is wrong
        by_manager = concerns(new, old) and await self._is_manager(request.user_info)
        await self._objects.nad(new, old, by_manager=by_manager)
        if new is not None:
            self._in_flight.add(NADS, request, new, old)
        return ()

    async def validate_addresses(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a Network that an isolated network has for its subnets."""
        new, old = new_of(NETWORKS, request), old_of(NETWORKS, request)
        owned = any(item is not None and owner_of(item) for item in (new, old))
        if not owned or request.sub_resource or await self._is_manager(request.user_info):
            return ()
        return await self._objects.addresses(new, old)

    async def validate_config(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a VlanConfig."""
        try:
            new, old = new_of(VLAN_CONFIGS, request), old_of(VLAN_CONFIGS, request)
        except Unreadable:
            return ()  # the webhook of VLANs says what is wrong
        await self._objects.config(new, old)
        if new is not None:
            self._in_flight.add(VLAN_CONFIGS, request, new, old)
        return ()


WEBHOOKS = (
    Webhook("validate", DUMMY_CLUSTER_NETWORKS, EVERY, DummyAdmission.validate_network),
    Webhook("validate", NADS, EVERY, DummyAdmission.validate_nad),
    Webhook("validate", VLAN_CONFIGS, WRITTEN, DummyAdmission.validate_config),
    Webhook("validate", NETWORKS, EVERY, DummyAdmission.validate_addresses),
)
"""What the API server asks about. Nothing is filled in: what is left out has its default in the schema."""
