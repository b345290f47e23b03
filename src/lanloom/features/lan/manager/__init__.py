"""The manager's part of LANs: their NADs, their statuses, and their end.

`lans` reconciles one LAN, `removal` takes NADs and LANs away, `controllers` is what wakes them.
"""

from functools import partial

from lanloom.api.core import PODS
from lanloom.api.multus import NADS
from lanloom.api.workloads import strip_pod
from lanloom.features.lan.admission import LanAdmission, nad_faults, refuse_management
from lanloom.features.lan.manager.controllers import LanManager
from lanloom.features.lan.reader import lan_informers
from lanloom.features.lan.rules.permits import USUAL
from lanloom.nads.faults import texts_of
from lanloom.nads.manager import NAD_USERS
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import Managers, pod_node
from lanloom.runtime.ports import LAN_UPLINKS


def build(context: ManagerContext) -> ManagerPart:
    """Build controllers and webhooks."""
    client, shared = context.client, context.informers
    informers, users = lan_informers(shared), context.need(NAD_USERS)
    manager = LanManager(
        client,
        informers,
        users,
        context.recorder,
        now=context.now,
        rng=context.rng,
        observe=context.observe,
    )
    node_of_pod = partial(pod_node, shared.get(PODS, transform=strip_pod).store)
    context.metrics["lan"].show(informers.lans)
    context.invalid.follow(shared.get(NADS), texts_of(nad_faults))
    return ManagerPart(
        run=manager.run,
        controllers=manager.controllers,
        admission=LanAdmission(
            client,
            informers,
            users,
            Managers(client, context.user).include,
            node_of_pod,
            context.in_flight,
            now=context.now,
            uplinks=context.find(LAN_UPLINKS) or refuse_management,
            permits=context.setting("lan", USUAL),
        ),
    )
