"""The webhooks' side of VLAN networks: turns admission requests into typed values and asks the rules."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from lanloom.api.admission import AdmissionRequest, Raw, Unreadable, Verdict, new_of, old_of, refusal
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    mac_in_base64,
)
from lanloom.api.l3 import AnnotationError
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.live import LiveReader, reserve
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit.l3 import TooEarly
from lanloom.features.vlan.rules.admit.lans import check_lan_uplink
from lanloom.features.vlan.rules.admit.losses import losses
from lanloom.features.vlan.rules.admit.nadconfig import label_changes
from lanloom.features.vlan.rules.admit.nads import check_nad
from lanloom.features.vlan.rules.admit.uplinks import (
    check_cluster_network,
    check_cluster_network_deletion,
    check_host_network,
    check_report,
    check_report_deletion,
    check_vlan_config,
    check_vlan_config_deletion,
)
from lanloom.features.vlan.rules.admit.vms import check_nad_deletion
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import recheck
from lanloom.kube.ports import Client
from lanloom.nads.references import NadUse
from lanloom.refusals import Refusal
from lanloom.runtime.identity import NodeOfPod, agent_node
from lanloom.runtime.webhooktable import (
    EVERY,
    WRITTEN,
    TableAdmission,
    Webhook,
    as_living,
    is_granted,
    only_releases,
)

UPLINK_SECONDS = 8.0
"""How long addresses wait alongside Harvester for a first working uplink.

An API server waits two seconds longer for the webhook."""

_RETRY_SECONDS = 0.5

Rule = Callable[[AdmissionRequest, ClusterReader], tuple[str, ...]]


class VlanAdmission(TableAdmission):
    """Answers admission requests about the kinds of VLAN networks."""

    def __init__(
        self,
        client: Client,
        reader: ClusterReader,
        node_of_pod: NodeOfPod,
        coexisting: Callable[[], bool] = lambda: False,
        in_flight: InFlight | None = None,
        users: NadUse | None = None,
    ) -> None:
        super().__init__(WEBHOOKS)
        self._client = client
        self._reader = reader
        self._in_flight = in_flight or InFlight()
        self._node_of_pod = node_of_pod
        self._coexists = coexisting
        self._users = users

    def label(self, request: AdmissionRequest) -> Verdict:
        """Fill in the labels that a NAD's configuration implies; Harvester's controller does that itself."""
        return Verdict() if self._coexists() else _labelled(request)

    def write_mac(self, request: AdmissionRequest) -> Verdict:
        """Write a VlanConfig's MAC address as the schema wants it; Harvester's controller does that itself."""
        return Verdict() if self._coexists() else _in_base64(request)

    async def report(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow an agent the reports of its own node only."""
        _check_report(request, agent_node(request.user_info, self._node_of_pod))
        return ()

    async def decide(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse the request. None is refused because a watch lags behind, but one that can't be judged is.

        A malformed object is no reason to read anything, however often it is sent. What is allowed counts for
        the next request, although no watch has brought it.
        """
        rule = partial(_check, request, users=self._users, coexisting=self._coexists())
        warnings = await self._check_in_time(rule)
        reserve(request, self._in_flight)
        return warnings

    async def check_lan_uplink(self, namespace: str, cluster_network: str, vlan: int) -> None:
        """Raise Denied where LANs of a namespace may not be joined to a VLAN; the port LAN_UPLINKS."""
        rule = partial(check_lan_uplink, namespace, cluster_network, vlan)
        live = LiveReader(self._client, self._reader, self._in_flight)
        await recheck(rule, live.views())

    async def _check_in_time(self, rule: Callable[[ClusterReader], tuple[str, ...]]) -> tuple[str, ...]:
        """Wait alongside Harvester for uplinks that are being built: a manifest may hold them and addresses on them."""
        for _ in range(round(UPLINK_SECONDS / _RETRY_SECONDS)):
            try:
                return await recheck(rule, LiveReader(self._client, self._reader, self._in_flight).views())
            except TooEarly:
                await asyncio.sleep(_RETRY_SECONDS)
        return await recheck(rule, LiveReader(self._client, self._reader, self._in_flight).views())


def check_request(request: AdmissionRequest, reader: ClusterReader, *, coexisting: bool = False) -> Verdict:
    """Return the verdict of the rules on a request in that state of the cluster, alongside Harvester or alone."""
    if only_releases(request):
        return Verdict()
    try:
        return Verdict(warnings=_check(as_living(request), reader, coexisting=coexisting))
    except (Refusal, Unreadable) as refused:
        return Verdict() if is_granted(request) else refusal(refused)


def _check(
    request: AdmissionRequest,
    reader: ClusterReader,
    users: NadUse | None = None,
    *,
    coexisting: bool = False,
) -> tuple[str, ...]:
    """Return the warnings of the rule for that kind, and about what is lost; none for other kinds."""
    kind = request.resource.resource
    rule = partial(found, coexisting=coexisting) if (found := _BY_MODE.get(kind)) else _RULES.get(kind)
    return (*rule(request, reader), *losses(request, reader, users)) if rule is not None else ()


def _nad(request: AdmissionRequest, reader: ClusterReader, *, coexisting: bool) -> tuple[str, ...]:
    new, old = new_of(NADS, request), old_of(NADS, request)
    if new is not None:
        return check_nad(new, old, reader, coexisting=coexisting)
    if old is not None:
        check_nad_deletion(old, reader)
    return ()


def _cluster_network(request: AdmissionRequest, reader: ClusterReader) -> tuple[str, ...]:
    new, old = new_of(CLUSTER_NETWORKS, request), old_of(CLUSTER_NETWORKS, request)
    if new is not None:
        return check_cluster_network(new, old, reader)
    if old is not None:
        check_cluster_network_deletion(old, reader)
    return ()


def _vlan_config(request: AdmissionRequest, reader: ClusterReader, *, coexisting: bool) -> tuple[str, ...]:
    new, old = new_of(VLAN_CONFIGS, request), old_of(VLAN_CONFIGS, request)
    if new is not None:
        return check_vlan_config(new, old, reader, coexisting=coexisting)
    if old is not None:
        check_vlan_config_deletion(old, reader)
    return ()


def _host_network(request: AdmissionRequest, reader: ClusterReader) -> tuple[str, ...]:
    new, old = new_of(HOST_NETWORK_CONFIGS, request), old_of(HOST_NETWORK_CONFIGS, request)
    if new is not None:
        check_host_network(new, old, reader)
    return ()


def _labelled(request: AdmissionRequest) -> Verdict:
    new, old = new_of(NADS, request), old_of(NADS, request)
    if new is None:
        return Verdict()
    changes = label_changes(new, old)
    if changes and not new.metadata.labels:
        return Verdict(patch=({"op": "add", "path": "/metadata/labels", "value": changes},))
    return Verdict(patch=tuple(_label_operation(key, value) for key, value in changes.items()))


def _in_base64(request: AdmissionRequest) -> Verdict:
    """Return a MAC address with colons, which the schema refuses, as its bytes in base64.

    This one value is not kept as it was written: Harvester's clients can't read an object with colons, nor any list
    that has one.
    """
    field = "spec.uplink.linkAttributes.hardwareAddr"
    new = new_of(VLAN_CONFIGS, request)
    text = new.spec.uplink.linkAttributes.hardwareAddr if new is not None else ""
    if ":" not in text:
        return Verdict()
    try:
        value = mac_in_base64(field, text)
    except AnnotationError as error:
        return refusal(f"can't write VlanConfig {request.name} because {error}")
    path = "/spec/uplink/linkAttributes/hardwareAddr"
    warning = (
        f"{field} {text} is stored as {value}, the form of Harvester's API; write {value} in files that a tool "
        "compares with the cluster"
    )
    return Verdict(patch=({"op": "replace", "path": path, "value": value},), warnings=(warning,))


def _check_report(request: AdmissionRequest, node: str | None) -> None:
    kind = _REPORTS[request.resource.resource]
    new, old = new_of(kind, request), old_of(kind, request)
    check = check_report_deletion if new is None else check_report
    for report in (new, old):
        if report is not None and node is not None:
            check(report, kind, node)


_REPORTS: dict[str, Resource[Any]] = {kind.plural: kind for kind in (CLUSTER_NETWORK_NODES, VLAN_STATUSES)}

_BY_MODE: dict[str, Callable[..., tuple[str, ...]]] = {NADS.plural: _nad, VLAN_CONFIGS.plural: _vlan_config}
"""Rules that differ alongside Harvester's controller."""

_RULES: dict[str, Rule] = {
    CLUSTER_NETWORKS.plural: _cluster_network,
    HOST_NETWORK_CONFIGS.plural: _host_network,
}


def _label_operation(key: str, value: str | None) -> Raw:
    """Return an operation of a JSON patch (RFC 6902): the label's new value, or None to remove it."""
    pointer = key.replace("~", "~0").replace("/", "~1")
    path = f"/metadata/labels/{pointer}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}


WEBHOOKS = (
    Webhook("mutate", NADS, WRITTEN, VlanAdmission.label),
    Webhook("mutate", VLAN_CONFIGS, WRITTEN, VlanAdmission.write_mac),
    Webhook("validate", NADS, EVERY, VlanAdmission.decide),
    Webhook("validate", CLUSTER_NETWORK_NODES, EVERY, VlanAdmission.report),
    Webhook("validate", CLUSTER_NETWORKS, EVERY, VlanAdmission.decide),
    Webhook("validate", VLAN_CONFIGS, EVERY, VlanAdmission.decide),
    Webhook("validate", VLAN_STATUSES, EVERY, VlanAdmission.report),
    Webhook("validate", HOST_NETWORK_CONFIGS, WRITTEN, VlanAdmission.decide),
)
"""The table of webhooks: the reviews that the API server requests."""
