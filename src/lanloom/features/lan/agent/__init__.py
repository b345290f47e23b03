"""What a node does for LANs: the data plane in the kernel, the device plugin and the CNI programs' service.

`ports` is what the two halves agree on: `spokes` implements it, kubelet's and CNI's side uses it.
"""

import asyncio
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.controller import LanController
from lanloom.features.lan.agent.ipam import Ipam
from lanloom.features.lan.agent.ipamprocess import IpamViews
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.metrics import LanAgentMetrics, LearnedMacs, SpokeTraffic
from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.places import SpokePlaces
from lanloom.features.lan.agent.ports import SpokesPort
from lanloom.features.lan.agent.reconciler import LanReconciler
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.report import ReportPublisher
from lanloom.features.lan.agent.spokes import Spokes
from lanloom.features.lan.agent.uplinks import Uplinks
from lanloom.features.lan.agent.users import RemoteUsers
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.agentoptions import LanAgentSettings
from lanloom.kube.events import node_reference
from lanloom.kube.refusalreports import RefusalEvents
from lanloom.node.errors import NodeError
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.context import AgentContext, AgentPart, idle
from lanloom.runtime.ports import IPAM_PROGRAMS, LAN_PLACES, MULTUS, Port

SPOKES: Port[SpokesPort] = Port("spokes of LANs on this node")
LAN_KERNEL: Port[LanKernel] = Port("a node's kernel, as far as LANs go")
"""Provided before the part is built by those who play a node; otherwise the kernel is this machine's."""


class DataPlane:
    """The LANs of a node: `spokes` for kubelet and CNI programs, `run` until cancelled."""

    def __init__(self, context: AgentContext, kernel: LanKernel) -> None:
        node, now, rng = context.host.name, context.now, context.rng
        records = LanRecords(context.host.state)
        view = ClusterView(context.client, context.informers, node)
        self.uplinks = Uplinks(
            context.client,
            kernel,
            view,
            node,
            now=now,
            rng=rng,
            settled=lambda uid: reconciler.exclusive(uid, idle),
            changed=self._uplink_changed,
        )
        reconciler = LanReconciler(
            kernel,
            records,
            view,
            node=node,
            now=now,
            on_state=self._report,
            holds_uplink=self.uplinks.holds,
        )
        self._kernel, self._records, self._reconciler = kernel, records, reconciler
        self._publisher = ReportPublisher(
            context.client,
            view,
            node,
            reconciler.entries,
            is_known=lambda uid: reconciler.state(uid) is not None,
            is_ready=lambda: not self.spokes.unready(),
            underlays=kernel.underlays,
            multus=lambda: context.find(MULTUS),
            rng=rng,
            observe=context.observe,
            refusals=RefusalEvents(context.recorder, lambda _key: node_reference(node)),
        )
        self.entries = reconciler.entries
        elsewhere = RemoteUsers(context.client, view, node)
        self.spokes = Spokes(
            reconciler, kernel, records, view, now=now, elsewhere=elsewhere, woken=self._wake
        )
        self.places = SpokePlaces(
            reconciler, records, view, elsewhere, node=node, woken=self._wake, unready=self.spokes.unready
        )
        self.controller = LanController(
            reconciler,
            kernel,
            records,
            view,
            rng=rng,
            loaded=self.spokes.ready,
            host_changed=self._host_changed,
            observe=context.observe,
        )
        self.controllers = (self.controller.controller, self._publisher.controller)

    def traffic(self) -> Iterator[SpokeTraffic]:
        """Yield what passes the spokes that are attached, by LAN; what can't be read is left out.

        It blocks for a moment.
        """
        for record in sorted(self._records.by_uid.values(), key=lambda each: each.title):
            places = [place for place in record.places if place.attached]
            try:
                found = self._kernel.traffic(record.ns) if places else {}
            except NodeError:
                continue
            for place in places:
                if place.id in found:
                    yield SpokeTraffic(
                        namespace=record.namespace,
                        lan=record.name,
                        spoke=place.spoke,
                        mode=place.mode,
                        traffic=found[place.id],
                    )

    def learned(self) -> Iterator[LearnedMacs]:
        """Yield how full the tables of each LAN were at the last look."""
        for record in sorted(self._records.by_uid.values(), key=lambda each: each.title):
            state = self._reconciler.state(record.uid)
            for table in state.floods.tables if state is not None and state.floods is not None else ():
                yield LearnedMacs(namespace=record.namespace, lan=record.name, table=table)

    async def run(self) -> None:
        """Run until cancelled."""
        self._publisher.wake()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run())
            group.create_task(self._publisher.controller.run())
            group.create_task(self.uplinks.run())

    def _report(self) -> None:
        self._publisher.wake()

    def _host_changed(self) -> None:
        self.uplinks.check()
        self._publisher.wake()

    def _uplink_changed(self, uid: str) -> None:
        self.controller.wake(uid)
        self._publisher.wake()

    def _wake(self, uid: str) -> None:
        self.controller.wake(uid)
        self._publisher.wake()


def build(context: AgentContext) -> AgentPart:
    """Keep the node's part of LANs, and offer its spokes to kubelet and to CNI programs.

    An agent that advertises no devices has no LANs: nothing of it runs, and it leaves the node's LANNode to another.
    """
    settings = context.setting("lan", LanAgentSettings())
    if settings.device_plugins is None:
        return AgentPart()
    metrics = context.metrics["lan"]
    plane = DataPlane(context, context.find(LAN_KERNEL) or NetlinkLanKernel())
    context.provide(SPOKES, plane.spokes)
    context.provide(LAN_PLACES, plane.places)
    metrics.follow(plane.traffic, plane.learned)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(plane.run())
            group.create_task(serve_devices(plane.spokes, settings, metrics))

    local = context.find(IPAM_PROGRAMS) or {}
    cni = (
        cni_service(plane.spokes, context.cni, settings, metrics, local) if context.cni is not None else None
    )
    return AgentPart(run=run, controllers=plane.controllers, cni=cni, attaching=(LANS,))


def cni_service(
    spokes: SpokesPort,
    cni: CniSettings,
    settings: LanAgentSettings,
    metrics: LanAgentMetrics,
    local: Mapping[str, CniService] = MappingProxyType({}),
) -> CniService:
    """Return the answers for the programs; `local` are IPAM programs that this process answers itself."""
    views = IpamViews(cni.socket.parent, cni.state)
    ipam = Ipam(cni.programs, settings.ipam_programs, views=views, local=local)
    return CniService(answer=LanCni(spokes, ipam).answer, called=metrics.called, serves=metrics.serves)


async def serve_devices(spokes: SpokesPort, settings: LanAgentSettings, metrics: LanAgentMetrics) -> None:
    """Offer the devices until cancelled, if the agent has the option of kubelet's directory."""
    if settings.device_plugins is None:
        return
    from lanloom.features.lan.agent.kubelet.plugins import DevicePlugins

    plugins = DevicePlugins(
        spokes, settings.device_plugins, observe=metrics.allocated, on_registered=metrics.registered
    )
    await plugins.run()
