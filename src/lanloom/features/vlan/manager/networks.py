"""Looks after one ClusterNetwork at a time: its conditions, its annotations, its roll-out, and what is reported of it.

Everything is computed from the stores before the first write. A status patch comes first, then one patch with all
annotations, which overlaps the configuration and who may carry it: a manager that dies between two lines leaves a state
from which the next one goes on.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import ObjectReference
from lanloom.api.dualstack import NodeAddresses
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.vlan.informers import BY_CLUSTER_NETWORK, MAY_HAVE_ADDRESSES, VlanInformers
from lanloom.features.vlan.manager.complaints import host_network_complaints, readiness_events
from lanloom.features.vlan.manager.nodevlans import NodeVlans
from lanloom.features.vlan.manager.pools import claim_of, complaint, usable
from lanloom.features.vlan.manager.views import Derivation, Derivations, NodeStates, NodeView
from lanloom.features.vlan.mode import HarvesterDetector
from lanloom.features.vlan.rules.desired.conflicts import DUPLICATE_VLAN, config_conflicts, duplicate_vlan
from lanloom.features.vlan.rules.desired.reserved import reserved
from lanloom.features.vlan.rules.report.cluster import annotation_patch, matched_annotation, present_leases
from lanloom.features.vlan.rules.report.readiness import (
    LastReported,
    NodeState,
    Wanted,
    awaited,
    network_conditions,
    network_event,
    network_health,
    soonest,
)
from lanloom.features.vlan.rules.rollout.policy import RolloutState, revision, rollout_state
from lanloom.features.vlan.rules.rollout.stages import (
    DUPLICATE,
    INVALID,
    ROLLED_OUT,
    Member,
    next_step,
    rollout_events,
)
from lanloom.kube.conditions import Finding, with_finding
from lanloom.kube.errors import Invalid
from lanloom.kube.events import Recorder, reference
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.runtime.ports import NO_LEASES, NodeLeases, NodePools

ORPHAN_SECONDS = 5.0
"""Seconds that a VlanConfig may be without its ClusterNetwork before an Event: watches bring both in any order."""


class _View(Struct, frozen=True):
    """The observed state of a ClusterNetwork. `states` are those of its live nodes; no `rollout` without a policy."""

    derivation: Derivation
    states: dict[str, NodeState]
    matched: tuple[str, ...]
    pooled: dict[Key, NodeLeases]
    rollout: RolloutState | None
    finding: Finding | None
    host_networks: tuple[HostNetworkConfig, ...]


class Networks:
    """The ClusterNetworks. What was reported is forgotten with the process: at worst it is reported once more."""

    def __init__(
        self,
        client: Client,
        informers: VlanInformers,
        nodes: NodeView,
        recorder: Recorder,
        pools: NodePools,
        now: Callable[[], float],
        detector: HarvesterDetector,
    ) -> None:
        self._client = client
        self._detector = detector
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._nodes = nodes
        self._recorder = recorder
        self._pools = pools
        self._now = now
        self._derivations = Derivations()
        self._states = NodeStates()
        self._written = informers.cluster_networks.mutations()
        self._complaints: dict[str, dict[ObjectReference, tuple[str, str]]] = {}
        self._last_reported: dict[str, dict[Key, LastReported]] = {}
        self._refused: dict[str, str] = {}
        self._orphans: dict[str, float] = {}
        self._node_vlans = NodeVlans()
        informers.nads.on_change(self._derivations.nad_changed)
        informers.statuses.on_change(self._states.status_changed)

    async def reconcile(self, name: str) -> float | None:
        """Make the ClusterNetwork say what is so; in how many seconds to look again, if that is known."""
        with ignore_not_found(name):
            return await self._reconcile(name)
        return None

    async def _reconcile(self, name: str) -> float | None:
        network = self._written.get(Key("", name))
        if network is None:
            self._forget(name)
            return await self._orphaned(name)
        self._orphans.pop(name, None)
        nads = self._informers.nads.store.by(MAY_HAVE_ADDRESSES, name)
        view = self._observe(network, nads)
        await self._report_rejections(network, nads, view)
        # The conditions first: no reader may see a new configuration under a condition that speaks of the old one.
        network = await self._write_conditions(network, view)
        wait = await self._write_annotations(network, view)
        return soonest((wait, await self._report_readiness(name, nads, view)))

    def _forget(self, name: str) -> None:
        self._derivations.forget(name)
        self._node_vlans.forget(name)
        for cache in (self._last_reported, self._refused):
            cache.pop(name, None)

    def _observe(self, network: ClusterNetwork, nads: tuple[NetworkAttachmentDefinition, ...]) -> _View:
        name = network.metadata.name
        known = self._informers.configs.store.by(BY_CLUSTER_NETWORK, name)
        configs = tuple(item for item in known if not item.metadata.is_deleting)
        matched = self._matched(name, configs)
        live = [node for node in matched if self._nodes.is_live(node)]
        reports = self._informers.statuses.store.by(BY_CLUSTER_NETWORK, name)
        pooled = self._claim(network, nads, matched, reports)
        leases = {key: NodeAddresses(found.addresses, found.addresses6) for key, found in pooled.items()}
        host_networks = self._informers.host_networks.store.by(BY_CLUSTER_NETWORK, name)
        derivation = self._derivations.of(
            network, nads, configs, leases, host_networks, coexisting=self._detector.coexists()
        )
        uplinks = {
            node: wanted
            for selector, wanted in derivation.uplinks
            if name != names.MGMT
            for node in self._nodes.matching(selector)
        }
        states = self._states.of(matched, reports, derivation.wanted, uplinks)
        alive = {node: states[node] for node in live}
        present = revision(
            derivation.derived.annotations | _policy(network), configs, self._rolled_out(network)
        )
        members = (
            {node: _member(node, states[node], node in alive, derivation.wanted, reports) for node in matched}
            if present
            else {}
        )
        rollout, finding = next_step(network, present, members)
        return _View(derivation, alive, matched, pooled, rollout, finding, host_networks)

    def _rolled_out(self, network: ClusterNetwork) -> tuple[NetworkAttachmentDefinition, ...]:
        """Return the NADs that a policy rolls out: all of the network, with node addresses or not."""
        return (
            self._informers.nads.store.by(BY_CLUSTER_NETWORK, network.metadata.name)
            if _policy(network)
            else ()
        )

    def _claim(
        self,
        network: ClusterNetwork,
        nads: tuple[NetworkAttachmentDefinition, ...],
        matched: tuple[str, ...],
        reports: tuple[ClusterNetworkNode, ...],
    ) -> dict[Key, NodeLeases]:
        """Say which nodes need addresses from pools; what they have."""
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
        taken = reserved(self._informers.nodes.store.items(), reports, ranges=self._informers.ranges())
        present = present_leases(network, found)
        return {key: usable(leases, taken, present[key]) for key, leases in found.items()}

    def _matched(self, name: str, configs: tuple[VlanConfig, ...]) -> tuple[str, ...]:
        """Return the nodes that should carry a network, down or not. On mgmt, which has no VlanConfigs, every node.

        Harvester's installer makes the ClusterNetwork mgmt. Lanloom makes none: where it is missing, there is no bridge
        mgmt-br that it could speak of.
        """
        if name == names.MGMT:
            return self._nodes.matching({})
        found = {node for item in configs for node in self._nodes.matching(item.spec.node_selector)}
        return tuple(sorted(found))

    async def _write_conditions(self, network: ClusterNetwork, view: _View) -> ClusterNetwork:
        """Write the conditions if they changed; the network as it is then.

        Alongside Harvester's controller, which writes them, only the agents' reports and Events tell of Lanloom's work.
        """
        if self._detector.coexists():
            return network
        name, previous = network.metadata.name, network.status.conditions
        now = self._now()
        asked, isolated = bool(view.derivation.wanted.modes), _isolated(network)
        conditions = network_conditions(previous, view.states, now, asked=asked, isolated=isolated)
        conditions = with_finding(conditions, ROLLED_OUT, view.finding, generation=0, now=now)
        if conditions == previous:
            return network
        status = replace(network.status, conditions=conditions)
        patch = struct_diff(network.status, status)
        network = self._written.add(await self._statuses.patch(CLUSTER_NETWORKS, name, {"status": patch}))
        await self._recorder.record(
            reference(CLUSTER_NETWORKS, network), readiness_events(previous, conditions)
        )
        return network

    async def _write_annotations(self, network: ClusterNetwork, view: _View) -> float | None:
        """Write all annotations of ours in one patch, if the object is still the one that was read.

        Returns in how many seconds there may be another one to write.
        """
        meta = network.metadata
        patch = annotation_patch(network, view.derivation.derived.annotations) | _rollout_patch(
            network, view.rollout
        )
        if meta.name == names.MGMT:
            patch |= _changed(network, names.MATCHED_NODES, matched_annotation(view.matched))
        vlans, wait = self._vlan_patch(network, view)
        patch |= vlans
        if not patch:
            return wait
        before = rollout_state(network)
        try:
            await self._annotate(network, patch)
        except Invalid as error:
            # Whatever the server dislikes about the rest, such as its size, nodes must not keep what is to go.
            self._refused[meta.name] = error.message
            await self._annotate(network, {key: None for key, value in patch.items() if value is None})
            raise
        self._refused.pop(meta.name, None)
        if view.rollout is not None and view.finding is not None:
            events = rollout_events(before, view.rollout, view.finding.message)
            await self._recorder.record(reference(CLUSTER_NETWORKS, network), events)
        return wait

    def _vlan_patch(self, network: ClusterNetwork, view: _View) -> tuple[dict[str, str | None], float | None]:
        if not self._detector.coexists():
            return _changed(network, names.NODE_VLANS, None), None
        reports = self._informers.statuses.store.by(BY_CLUSTER_NETWORK, network.metadata.name)
        return self._node_vlans.patch(network, reports, view.states)

    async def _annotate(self, network: ClusterNetwork, patch: Mapping[str, str | None]) -> None:
        if not patch:
            return
        meta = network.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": patch}}
        self._written.add(await self._client.patch(CLUSTER_NETWORKS, meta.name, body))

    async def _report_rejections(
        self, network: ClusterNetwork, nads: tuple[NetworkAttachmentDefinition, ...], view: _View
    ) -> None:
        """Report objects that can't be used, once for each reason."""
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
        complaints |= host_network_complaints(view.derivation.derived.holders, view.host_networks)
        for about, last_reported in self._rivalries(network.metadata.name, view):
            complaints.setdefault(about, last_reported)
        if view.finding is not None and view.finding.reason == INVALID:
            complaints[reference(CLUSTER_NETWORKS, network)] = (INVALID, view.finding.message)
        elif network.metadata.name in self._refused:
            complaints[reference(CLUSTER_NETWORKS, network)] = (
                "AnnotationsRefused",
                self._why_refused(network),
            )
        await self._publish(network.metadata.name, complaints)

    async def _publish(self, name: str, complaints: dict[ObjectReference, tuple[str, str]]) -> None:
        """Report what was not reported before of a ClusterNetwork."""
        known = self._complaints.get(name, {})
        for about, (reason, message) in complaints.items():
            if known.get(about) != (reason, message):
                await self._recorder.event(about, "Warning", reason, message)
        self._complaints[name] = complaints

    def _rivalries(self, name: str, view: _View) -> Iterator[tuple[ObjectReference, tuple[str, str]]]:
        """Yield the Events about conflicting objects. Harvester's controller, if present, reports VlanConfigs."""
        for owner, younger in view.derivation.derived.contested:
            yield (
                reference(NADS, owner.nad),
                (DUPLICATE_VLAN, duplicate_vlan(owner.value.vid, owner.nad, younger)),
            )
        if self._detector.coexists():
            return
        configs = self._informers.configs.store
        for item in config_conflicts(
            configs.by(BY_CLUSTER_NETWORK, name), configs.items(), self._nodes.matching
        ):
            yield reference(VLAN_CONFIGS, item.about), (item.reason, item.message)

    async def _orphaned(self, name: str) -> float | None:
        """Record an Event on the VlanConfigs of a ClusterNetwork that is still missing a moment later."""
        configs = self._informers.configs.store.by(BY_CLUSTER_NETWORK, name)
        if not name or name == names.MGMT or not configs or self._detector.coexists():
            self._orphans.pop(name, None)
            self._complaints.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        wait = self._orphans.setdefault(name, now) + ORPHAN_SECONDS - now
        if wait > 0:
            return wait
        message = f"spec.clusterNetwork {name} does not exist. Create the ClusterNetwork, or delete this VlanConfig."
        complaints = {reference(VLAN_CONFIGS, item): ("NoClusterNetwork", message) for item in configs}
        await self._publish(name, complaints)
        return None

    def _why_refused(self, network: ClusterNetwork) -> str:
        return (
            "The API server rejects the annotations that inform nodes of changed networks: "
            f"{self._refused[network.metadata.name]}. Nodes still remove deleted networks. Shorten the "
            "other annotations of this ClusterNetwork."
        )

    async def _report_readiness(
        self, name: str, nads: tuple[NetworkAttachmentDefinition, ...], view: _View
    ) -> float | None:
        """Report how the networks with node addresses fare."""
        now = asyncio.get_running_loop().time()
        known, fares = self._last_reported.get(name, {}), network_health(view.states)
        last_reported: dict[Key, LastReported] = {}
        waits = []
        for nad in nads:
            key = nad.metadata.key
            if key in view.derivation.derived.holders:
                last_reported[key], event, wait = network_event(known.get(key), str(key), fares, now)
                waits.append(wait)
                await self._recorder.record(reference(NADS, nad), (event,) if event else ())
        self._last_reported[name] = last_reported
        return soonest(waits)


def _policy(network: ClusterNetwork) -> dict[str, str]:
    text = network.metadata.annotations.get(names.ROLLOUT)
    return {} if text is None else {names.ROLLOUT: text}


def _member(
    node: str, state: NodeState, live: bool, wanted: Wanted, reports: tuple[ClusterNetworkNode, ...]
) -> Member:
    awaits: tuple[str, ...] = ()
    if any(item.reason == DUPLICATE for item in state.causes):  # rare; else every report would be searched
        awaits = awaited(node, wanted, (item.status for item in reports))
    return Member(live=live, revision=state.revision, causes=state.causes, awaits=awaits)


def _rollout_patch(network: ClusterNetwork, state: RolloutState | None) -> dict[str, str | None]:
    text = None if state in (None, RolloutState()) else msgspec.json.encode(state).decode()
    return _changed(network, names.ROLLOUT_STATE, text)


def _changed(network: ClusterNetwork, key: str, value: str | None) -> dict[str, str | None]:
    return {} if network.metadata.annotations.get(key) == value else {key: value}


def _isolated(network: ClusterNetwork) -> str:
    """Return the name of the isolated network to which a cluster network belongs; empty for any other."""
    meta = network.metadata
    return meta.annotations.get(NAME_ANNOTATION, meta.name) if UID_LABEL in meta.labels else ""
