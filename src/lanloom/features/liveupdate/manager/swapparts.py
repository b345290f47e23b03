"""Swaps in a manager's process."""

from functools import partial
from typing import NamedTuple

from lanloom.api.core import PODS
from lanloom.api.workloads import lean
from lanloom.features.liveupdate.admission import SwapAdmission
from lanloom.features.liveupdate.manager.swapreader import SwapInformers, SwapReader
from lanloom.features.liveupdate.manager.swaps import SwapManager, Swaps
from lanloom.runtime.context import MACHINE_ADDRESSES, ManagerContext
from lanloom.runtime.identity import Managers, pod_node


class SwapParts(NamedTuple):
    """The controller, for the leader, and the webhook."""

    manager: SwapManager
    admission: SwapAdmission


def swap_parts(context: ManagerContext, informers: SwapInformers) -> SwapParts:
    """Build them. Whoever manages addresses gives those of the new network."""
    client = context.client
    reader, metrics = SwapReader(client, informers, now=context.now), context.metrics["liveupdate"]
    swaps = Swaps(
        client,
        reader,
        context.recorder,
        now=context.now,
        addresses=context.find(MACHINE_ADDRESSES),
        ended=metrics.ended,
    )
    node_of_pod = partial(pod_node, context.informers.get(PODS, transform=lean).store)
    return SwapParts(
        SwapManager(informers, reader, swaps, rng=context.rng, observe=context.observe),
        SwapAdmission(client, informers.swaps, Managers(client, context.user).include, node_of_pod),
    )
