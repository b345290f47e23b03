"""Looks after one ClusterNetwork at a time: its conditions, its annotations, its roll-out, and what is told of it.

Everything is computed from the stores before the first write. A status patch comes first, then one patch with all
annotations, which holds the configuration and who may carry it: whoever dies between two lines leaves a state from
which the next one goes on.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import ObjectReference
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nodepools import NO_LEASES, NodeLeases
from lanloom.kube.conditions import find
from lanloom.kube.events import Recorder, reference
from lanloom.kube.lookup import gone_already
from lanloom.kube.mergediff import struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.statuses import StatusWriter
from lanloom.vlan.manager.informers import BY_CLUSTER_NETWORK, VlanInformers
from lanloom.vlan.manager.pools import NodePools, claim_of, complaint, usable
from lanloom.vlan.manager.views import Derivation, Derivations, NodeStates, NodeView
from lanloom.vlan.rules.cluster import annotation_patch, matched_annotation
from lanloom.vlan.rules.news import News, Told, network_news, soonest, weather
from lanloom.vlan.rules.readiness import NodeState, Wanted, awaited, network_conditions
from lanloom.vlan.rules.reserved import reserved
from lanloom.vlan.rules.rollout import RolloutState, revision, rollout_state
from lanloom.vlan.rules.stages import DUPLICATE, INVALID, ROLLED_OUT, Member, next_step, rollout_news
from lanloom.vlan.rules.status import READY, Finding, with_finding


class _View(Struct, frozen=True):
    """What is known of a ClusterNetwork. `states` are those of its live nodes; no `rollout` without a policy."""

    derivation: Derivation
    states: dict[str, NodeState]
    matched: tuple[str, ...]
    pooled: dict[Key, NodeLeases]
    rollout: RolloutState | None
    finding: Finding | None


class Networks:
    """The ClusterNetworks. What was told of them is forgotten with the process: at worst it is told once more."""

    def __init__(
        self,
        client: Client,
        informers: VlanInformers,
        nodes: NodeView,
        recorder: Recorder,
        pools: NodePools,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._nodes = nodes
        self._recorder = recorder
        self._pools = pools
        self._now = now
        self._derivations = Derivations()
        self._states = NodeStates()
        self._written: dict[str, ClusterNetwork] = {}
        self._complaints: dict[str, dict[ObjectReference, tuple[str, str]]] = {}
        self._told: dict[str, dict[Key, Told]] = {}
        informers.nads.on_change(self._derivations.nad_changed)
        informers.statuses.on_change(self._states.status_changed)

    async def reconcile(self, name: str) -> float | None:
        """Makes the ClusterNetwork say what is so; in how many seconds to look again, if that is known."""
        with gone_already(name):
            return await self._reconcile(name)
        return None

    async def _reconcile(self, name: str) -> float | None:
        network = self._present(name)
        if network is None:
            self._forget(name)
            return None
        nads = self._informers.nads.store.by(BY_CLUSTER_NETWORK, name)
        view = self._look(network, nads)
        await self._complain(network, nads, view)
        # The conditions first: nobody may see a new configuration under a condition that speaks of the old one.
        network = await self._write_conditions(network, view)
        await self._write_annotations(network, view)
        return await self._tell(name, nads, view)

    def _present(self, name: str) -> ClusterNetwork | None:
        """The ClusterNetwork, in the form of our own last write where the watch has not brought that yet."""
        stored = self._informers.cluster_networks.store.get(Key("", name))
        written = self._written.get(name)
        if stored is None or written is None or written.metadata.uid != stored.metadata.uid:
            return stored
        return max(stored, written, key=lambda item: item.metadata.version)

    def _forget(self, name: str) -> None:
        self._derivations.forget(name)
        for memory in (self._written, self._complaints, self._told):
            memory.pop(name, None)

    def _look(self, network: ClusterNetwork, nads: tuple[NetworkAttachmentDefinition, ...]) -> _View:
        name = network.metadata.name
        known = self._informers.configs.store.by(BY_CLUSTER_NETWORK, name)
        configs = tuple(item for item in known if not item.metadata.is_leaving)
        matched = self._matched(name, configs)
        live = [node for node in matched if self._nodes.is_live(node)]
        reports = self._informers.statuses.store.by(BY_CLUSTER_NETWORK, name)
        pooled = self._claim(nads, matched, reports)
        leases = {key: found.addresses for key, found in pooled.items()}
        derivation = self._derivations.of(network, nads, configs, leases)
        states = self._states.of(matched, reports, derivation.wanted)
        alive = {node: states[node] for node in live}
        present = revision(derivation.derived.annotations | _policy(network), configs, nads)
        members = (
            {node: _member(node, states[node], node in alive, derivation.wanted, reports) for node in matched}
            if present
            else {}
        )
        rollout, finding = next_step(network, present, members)
        return _View(derivation, alive, matched, pooled, rollout, finding)

    def _claim(
        self,
        nads: tuple[NetworkAttachmentDefinition, ...],
        matched: tuple[str, ...],
        reports: tuple[VlanStatus, ...],
    ) -> dict[Key, NodeLeases]:
        """Says which nodes need addresses from pools; what they have."""
        found = {}
        for nad in nads:
            key, source = nad.metadata.key, self._derivations.source(nad)
            if source is None:
                self._pools.claim(key, None)
            else:
                self._pools.claim(key, claim_of(nad, source, matched, self._nodes.names, reports))
                found[key] = self._pools.leases(key)
        if not found:
            return found
        reports = self._informers.statuses.store.by(BY_CLUSTER_NETWORK, names.MGMT)
        taken = reserved(self._informers.nodes.store.items(), reports)
        return {key: usable(leases, taken) for key, leases in found.items()}

    def _matched(self, name: str, configs: tuple[VlanConfig, ...]) -> tuple[str, ...]:
        """The nodes that should carry a network, down or not. On mgmt, which has no VlanConfigs, every node.

        Harvester's installer makes the ClusterNetwork mgmt. Lanloom makes none: where nobody did, there is no bridge
        mgmt-br that it could speak of.
        """
        if name == names.MGMT:
            return self._nodes.matching({})
        found = {node for item in configs for node in self._nodes.matching(item.spec.node_selector)}
        return tuple(sorted(found))

    async def _write_conditions(self, network: ClusterNetwork, view: _View) -> ClusterNetwork:
        """Writes the conditions if they changed; the network as it is then."""
        name, previous = network.metadata.name, network.status.conditions
        now = self._now()
        conditions = network_conditions(previous, view.states, now)
        if view.finding is None:
            conditions = tuple(item for item in conditions if item.type != ROLLED_OUT)
        else:
            conditions = with_finding(conditions, ROLLED_OUT, view.finding, now)
        if conditions == previous:
            return network
        status = replace(network.status, conditions=conditions)
        patch = struct_diff(network.status, status)
        network = await self._statuses.patch(CLUSTER_NETWORKS, name, {"status": patch})
        self._written[name] = network
        await self._record(reference(CLUSTER_NETWORKS, network), _readiness_news(previous, conditions))
        return network

    async def _write_annotations(self, network: ClusterNetwork, view: _View) -> None:
        """Writes all annotations of ours in one patch, if the object is still the one that was read."""
        meta = network.metadata
        patch = annotation_patch(network, view.derivation.derived.annotations) | _rollout_patch(
            network, view.rollout
        )
        if meta.name == names.MGMT:
            patch |= _changed(network, names.MATCHED_NODES, matched_annotation(view.matched))
        if not patch:
            return
        body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": patch}}
        before = rollout_state(network)
        self._written[meta.name] = await self._client.patch(CLUSTER_NETWORKS, meta.name, body)
        if view.rollout is not None and view.finding is not None:
            news = rollout_news(before, view.rollout, view.finding.message)
            await self._record(reference(CLUSTER_NETWORKS, network), news)

    async def _complain(
        self, network: ClusterNetwork, nads: tuple[NetworkAttachmentDefinition, ...], view: _View
    ) -> None:
        """Tells of objects that can't be used, once for each reason."""
        complaints = {
            reference(NADS, nad): (
                "InvalidNetwork",
                f"The network {nad.metadata.key} gets no node addresses because {error}.",
            )
            for nad, error in view.derivation.derived.rejected
        }
        for nad in nads:
            if text := complaint(nad, view.pooled.get(nad.metadata.key, NO_LEASES)):
                complaints.setdefault(reference(NADS, nad), ("NoPoolAddress", text))
        if view.finding is not None and view.finding.reason == INVALID:
            complaints[reference(CLUSTER_NETWORKS, network)] = (INVALID, view.finding.message)
        known = self._complaints.get(network.metadata.name, {})
        for about, (reason, message) in complaints.items():
            if known.get(about) != (reason, message):
                await self._recorder.event(about, "Warning", reason, message)
        self._complaints[network.metadata.name] = complaints

    async def _tell(
        self, name: str, nads: tuple[NetworkAttachmentDefinition, ...], view: _View
    ) -> float | None:
        """Tells how the networks with node addresses fare."""
        known, now, fares = self._told.get(name, {}), self._now(), weather(view.states)
        told: dict[Key, Told] = {}
        waits = []
        for nad in nads:
            key = nad.metadata.key
            if key in view.derivation.derived.holders:
                told[key], news, wait = network_news(known.get(key), str(key), fares, now)
                waits.append(wait)
                await self._record(reference(NADS, nad), (news,) if news else ())
        self._told[name] = told
        return soonest(waits)

    async def _record(self, about: ObjectReference, news: Iterable[News]) -> None:
        for item in news:
            await self._recorder.event(about, item.type, item.reason, item.message)


def _policy(network: ClusterNetwork) -> dict[str, str]:
    text = network.metadata.annotations.get(names.ROLLOUT)
    return {} if text is None else {names.ROLLOUT: text}


def _member(
    node: str, state: NodeState, live: bool, wanted: Wanted, reports: tuple[VlanStatus, ...]
) -> Member:
    awaits: tuple[str, ...] = ()
    if any(item.reason == DUPLICATE for item in state.obstacles):  # rare; else every report would be searched
        awaits = awaited(node, wanted, (item.status for item in reports))
    return Member(live=live, revision=state.revision, obstacles=state.obstacles, awaits=awaits)


def _rollout_patch(network: ClusterNetwork, state: RolloutState | None) -> dict[str, str | None]:
    text = None if state in (None, RolloutState()) else msgspec.json.encode(state).decode()
    return _changed(network, names.ROLLOUT_STATE, text)


def _changed(network: ClusterNetwork, key: str, value: str | None) -> dict[str, str | None]:
    return {} if network.metadata.annotations.get(key) == value else {key: value}


def _readiness_news(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> tuple[News, ...]:
    """That a ClusterNetwork became ready, or stopped to be. A new one is not ready yet, which is no news."""
    old, new = find(before, READY), find(after, READY)
    if old is None or new is None or old.status == new.status:
        return ()
    if new.status == "True":
        return (News("Normal", "Ready", "the uplinks of all its live nodes work"),)
    return (News("Warning", "NotReady", new.message),)
