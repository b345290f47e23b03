"""The webhooks of LANs: turn admission requests into typed values and ask the rules.

What the manager's stores allow may be allowed; a refusal rests on live objects (`recheck`). LANs that were let in a
moment ago and that no watch has brought yet count in addition to those of the stores.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from lanloom.api.admission import (
    AdmissionRequest,
    Raw,
    Unreadable,
    UserInfo,
    Verdict,
    new_of,
    old_of,
)
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import FORCE_DELETE, LAN, LAN_NODES, LANS, LANNode
from lanloom.api.lannads import attaching, spokes_named
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.names import MGMT
from lanloom.features.lan.agent.calls import config_fault
from lanloom.features.lan.reader import LanInformers
from lanloom.features.lan.rules.admit import (
    JOINED,
    JOINED_CHANGE,
    JOINED_DELETION,
    check_border,
    check_nad,
    check_nad_deletion,
    check_removed_spokes,
    check_report,
    check_reported,
    check_unused,
    concerns,
    is_joined,
    removed_spokes,
)
from lanloom.features.lan.rules.claims import check_claims
from lanloom.features.lan.rules.ipamconfig import ipam_faults, unknown_programs
from lanloom.features.lan.rules.mtus import asked_mtu, asks_more, check_mtus, check_nad_mtu
from lanloom.features.lan.rules.nads import owner_of
from lanloom.features.lan.rules.permits import USUAL, Permits, check_permits
from lanloom.features.lan.rules.removal import attached, users_of, with_attached
from lanloom.features.lan.rules.spec import check, check_changes, defaults, is_rerouted, title_of
from lanloom.features.lan.rules.subnets import network_of
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import cached_then_live, get_or_none, list_or_empty, recheck
from lanloom.kube.ports import Client
from lanloom.nads.faults import NO_PODS, NadFault, check_faults
from lanloom.nads.guard import pending
from lanloom.nads.references import NadUse
from lanloom.nads.users import NadUsers
from lanloom.refusals import Denied
from lanloom.runtime.identity import NodeOfPod, agent_node
from lanloom.runtime.ports import LanUplinks
from lanloom.runtime.webhooktable import EVERY, WRITTEN, TableAdmission, Webhook
from lanloom.text import listed

IsManager = Callable[[UserInfo], Awaitable[bool]]
"""Whether a manager asks."""


async def refuse_management(_namespace: str, cluster_network: str, _vlan: int) -> None:
    """Raise Denied for VLANs of `mgmt`: the `LanUplinks` of a manager that does not know which one is the nodes'."""
    if cluster_network == MGMT:
        raise Denied(
            f"this manager runs without the feature vlan, and does not know which VLAN of {MGMT} is that of the nodes; "
            "run it with that feature, or name another cluster network"
        )


class LanAdmission(TableAdmission):
    """Answer admission requests about LANs, their NADs, and reports of nodes. `now` is in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        informers: LanInformers,
        users: NadUsers,
        is_manager: IsManager,
        node_of_pod: NodeOfPod,
        in_flight: InFlight,
        *,
        now: Callable[[], float],
        uplinks: LanUplinks = refuse_management,
        permits: Permits = USUAL,
    ) -> None:
        super().__init__(WEBHOOKS)
        self._client = client
        self._informers = informers
        self._users = users
        self._is_manager = is_manager
        self._node_of_pod = node_of_pod
        self._check_uplink = uplinks
        self._now = now
        self._permits = permits
        self._in_flight = in_flight
        in_flight.follow(LANS, informers.lans)

    def fill_in(self, request: AdmissionRequest) -> Verdict:
        """Fill in the group and the port of a LAN; a spec that is none is left to the schema."""
        spec, before = _spec(request.object), _spec(request.old_object)
        if spec is None or request.sub_resource:
            return Verdict()
        found = defaults(spec, before)
        return Verdict(
            patch=tuple(
                {"op": "add", "path": f"/spec/{name}", "value": value} for name, value in found.items()
            )
        )

    async def validate_lan(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a LAN."""
        new, old = new_of(LANS, request), old_of(LANS, request)
        if new is None:
            return await self._lan_deletion(old, request) if old is not None else ()
        if request.sub_resource:
            if not await self._is_manager(request.user_info):
                raise Denied(
                    f"{title_of(new)}: status is written by Lanloom's manager only; change the spec instead"
                )
            return ()
        new = _placed(new, request)
        if old is not None and old.spec == new.spec:
            return _force_warnings(new)
        if is_joined(new, old) and not await self._is_manager(request.user_info):
            stands = old is not None and is_joined(old, old)
            raise Denied(f"{title_of(new)}: {JOINED_CHANGE if stands else JOINED}")
        check(new)
        if old is not None:
            await self._check_update(old, new)
        await self._check_uplink_of(old, new)
        others = tuple(self._informers.lans.store.items())
        await recheck(
            lambda lans: self._check_others(old, new, (*lans, *self._in_flight.of(LANS))),
            cached_then_live(others, self._list_lans),
        )
        self._in_flight.add(LANS, request, new, old)
        return _force_warnings(new)

    async def _lan_deletion(self, old: LAN, request: AdmissionRequest) -> tuple[str, ...]:
        """Refuse to delete a LAN on which an isolated network stands: it goes with that one. Return the warnings."""
        if is_joined(old, old) and not await self._is_manager(request.user_info):
            raise Denied(f"{title_of(old)}: {JOINED_DELETION}")
        return self._deletion_warnings(old)

    def _check_others(self, old: LAN | None, new: LAN, others: tuple[LAN, ...]) -> None:
        """Check what one LAN of a cluster has only, and what one namespace may have of it."""
        check_claims(new, others)
        check_permits(new, old, others, self._permits)

    async def _check_uplink_of(self, old: LAN | None, new: LAN) -> None:
        """Check that the VLAN's administrator lets the LAN join it. Raises Denied."""
        wanted, before = new.spec.uplink, old.spec.uplink if old is not None else None
        if wanted is None or wanted == before:
            return
        try:
            await self._check_uplink(new.metadata.namespace, wanted.cluster_network, wanted.vlan)
        except Denied as refusal:
            raise Denied(f"{title_of(new)}: spec.uplink: {refusal}") from None

    async def _check_update(self, old: LAN, new: LAN) -> None:
        """Check that what is built on nodes stays, and what has users."""
        check_changes(old, new)
        spokes = removed_spokes(old, new)
        if spokes:
            await recheck(
                lambda use: check_removed_spokes(new, self._users_by(use, old, spokes)), self._views()
            )
        if asks_more(old, new):
            reports = tuple(self._informers.lan_nodes.store.items())
            await recheck(
                lambda found: check_mtus(old, new, found), cached_then_live(reports, self._list_reports)
            )
        if spokes or is_rerouted(old.spec, new.spec):
            reports = tuple(self._informers.lan_nodes.store.items())
            await recheck(
                lambda found: check_reported(old, new, found), cached_then_live(reports, self._list_reports)
            )

    async def validate_nad(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a NAD, as far as it is a LAN's."""
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return ()  # the webhook of VLANs says what is wrong
        warnings: tuple[str, ...] = ()
        if new is not None and (named := spokes_named(new)) and (old is None or named - spokes_named(old)):
            await self._nad_border(_placed_nad(new, request))
        if new is not None and (old is None or old.spec != new.spec):
            placed = _placed_nad(new, request)
            warnings = (*check_faults(placed, old, nad_faults), *unknown_programs(placed))
            await self._nad_mtu(_placed_nad(new, request))
        if not concerns(new, old):
            return warnings
        by_manager = await self._is_manager(request.user_info)
        if new is None:
            if old is not None:
                await self._nad_deletion(old, by_manager=by_manager)
        elif not by_manager:
            checked = _placed_nad(new, request)
            stored = tuple(self._informers.lans.store.items())
            owner = owner_of((old or new).metadata)
            if owner and self._informers.of_uid(owner) is None:
                check_nad(
                    checked, old, await self._list_lans()
                )  # no LAN is gone because the watch lags behind
            else:
                await recheck(
                    lambda lans: self._check_states(lans, partial(check_nad, checked, old)),
                    cached_then_live(stored, self._list_lans),
                )
        return warnings

    async def _nad_mtu(self, nad: NetworkAttachmentDefinition) -> None:
        """Check that a NAD asks for no larger MTU than its LAN has."""
        if (asked := asked_mtu(nad)) is None:
            return
        lans, reports = self._informers.lans.store.items(), self._informers.lan_nodes.store.items()
        await recheck(
            lambda known: self._check_states(
                known[0], lambda states: check_nad_mtu(nad, asked, states, known[1])
            ),
            cached_then_live((tuple(lans), tuple(reports)), self._list_both),
        )

    async def _nad_border(self, nad: NetworkAttachmentDefinition) -> None:
        """Check that a NAD names no spoke of a LAN that does not admit its namespace."""
        stored = self._informers.with_spokes(spokes_named(nad))
        await recheck(
            lambda lans: self._check_states(lans, partial(check_border, nad)),
            cached_then_live(stored, self._list_lans),
        )

    def _check_states(self, lans: tuple[LAN, ...], check: Callable[[tuple[LAN, ...]], None]) -> None:
        """Check LANs as they are, and as they are to be once all is stored that was allowed: some of it may fail."""
        check(lans)
        known = {lan.metadata.key: lan for lan in lans}
        stored = self._informers.lans.store
        coming = self._in_flight.newer(LANS, lambda key: known.get(key) or stored.get(key))
        if coming:
            check(tuple((known | {lan.metadata.key: lan for lan in coming}).values()))

    async def _list_both(self) -> tuple[tuple[LAN, ...], tuple[LANNode, ...]]:
        return await self._list_lans(), await self._list_reports()

    async def _nad_deletion(self, nad: NetworkAttachmentDefinition, *, by_manager: bool) -> None:
        owner = owner_of(nad.metadata)
        if not owner:
            return

        def is_owned(lans: tuple[LAN, ...]) -> bool:
            by_uid = {lan.metadata.uid: lan for lan in lans}
            check_nad_deletion(nad, by_uid, by_manager=by_manager)
            return owner in by_uid

        if self._informers.of_uid(owner) is None:
            known = is_owned(await self._list_lans())
        else:
            stored = tuple(self._informers.lans.store.items())
            known = await recheck(is_owned, cached_then_live(stored, self._list_lans))
        if not known and not by_manager:
            use = await self._users.live()
            requests = (request.title for request in pending(nad, use.seen, self._now()))
            check_unused(nad, map(str, use.users_of(nad.metadata.key)), requests)

    async def validate_network(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a Network that a LAN has for its subnets."""
        new, old = new_of(NETWORKS, request), old_of(NETWORKS, request)
        uid = next((one for item in (old, new) if item is not None and (one := owner_of(item.metadata))), "")
        known = self._informers.of_uid(uid)
        if known is None or request.sub_resource or await self._is_manager(request.user_info):
            return ()
        lan = await get_or_none(self._client, LANS, known.metadata.key)
        if lan is None or lan.metadata.uid != uid or lan.metadata.is_deleting or not lan.spec.subnets:
            return ()
        return network_of(lan).check(new, old, title_of(lan))

    async def validate_report(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow an agent the report of its own node only."""
        node = agent_node(request.user_info, self._node_of_pod)
        if node is None:
            return ()
        new, old = new_of(LAN_NODES, request), old_of(LAN_NODES, request)
        for report in (new, old):
            if report is not None:
                check_report(report, node, "delete" if new is None else "write")
        return ()

    async def _views(self) -> AsyncGenerator[NadUse, None]:
        """Yield the users, by the watches and then live."""
        yield self._users
        yield await self._users.live()

    async def _list_lans(self) -> tuple[LAN, ...]:
        return await list_or_empty(self._client, LANS)

    async def _list_reports(self) -> tuple[LANNode, ...]:
        return await list_or_empty(self._client, LAN_NODES)

    def _users_by(self, use: NadUse, lan: LAN, spokes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the users of each of the spokes."""
        return {spoke: users_of(use, self._informers.nads_for(lan, (spoke,)), lan) for spoke in spokes}

    def _deletion_warnings(self, old: LAN) -> tuple[str, ...]:
        there = attached(old.metadata.uid, self._informers.carrying(old.metadata.uid))
        users = users_of(self._users, self._informers.nads_for(old, old.spec.spokes), old)
        users = with_attached(self._users, users, there)
        if not users:
            return ()
        return (
            f"{title_of(old)} is used by {listed(users)}; it stays until it has no users, and accepts no new ones. "
            f"The annotation {FORCE_DELETE}=true lets it go at once: they keep their interfaces "
            "until they end, and can't restart",
        )


def _force_warnings(lan: LAN) -> tuple[str, ...]:
    value = lan.metadata.annotations.get(FORCE_DELETE, "")
    if value in ("", "true", "false"):
        return ()
    return (f'{title_of(lan)}: metadata.annotations[{FORCE_DELETE}] has no effect unless it is "true"',)


def nad_faults(nad: NetworkAttachmentDefinition) -> Iterator[NadFault]:
    """Yield what makes an agent refuse each pod of a NAD at a LAN, and routes with host bits."""
    for fault in filter(None, map(config_fault, attaching(nad))):
        yield NadFault(f"spec.config: {fault}", NO_PODS, fault)
    yield from ipam_faults(nad)


def _spec(item: Raw | None) -> dict[str, Any] | None:
    found = item.get("spec") if item is not None else None
    return found if isinstance(found, dict) else None


def _placed(lan: LAN, request: AdmissionRequest) -> LAN:
    """Return the LAN in its namespace: on creation only the request may name it."""
    if lan.metadata.namespace:
        return lan
    return replace(lan, metadata=replace(lan.metadata, namespace=request.namespace))


def _placed_nad(nad: NetworkAttachmentDefinition, request: AdmissionRequest) -> NetworkAttachmentDefinition:
    if nad.metadata.namespace:
        return nad
    return replace(nad, metadata=replace(nad.metadata, namespace=request.namespace))


WEBHOOKS = (
    Webhook("mutate", LANS, WRITTEN, LanAdmission.fill_in),
    Webhook("validate", LANS, EVERY, LanAdmission.validate_lan),
    Webhook("validate", NADS, EVERY, LanAdmission.validate_nad),
    Webhook("validate", LAN_NODES, EVERY, LanAdmission.validate_report),
    Webhook("validate", NETWORKS, EVERY, LanAdmission.validate_network),
)
"""What the API server asks about."""
