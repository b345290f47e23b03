"""The NIC that a holder has already: by one of its names, or a machine's by another NAD of the same network."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from lanloom.api.ipam import (
    MACHINE_LABEL,
    NICS,
    NODE_LABEL,
    STICKY_FOR,
    Network,
    Nic,
    label_value,
    nads_of,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.agent.nics import marked
from lanloom.features.ipam.agent.pods import Holder, holder_by_name
from lanloom.features.ipam.rules.shares import kept_for
from lanloom.kube.errors import Conflict
from lanloom.kube.lookup import get_or_none, ignore_not_found
from lanloom.kube.ports import Client
from lanloom.poolrequests import satisfies
from lanloom.refusals import Malformed
from lanloom.runtime.cni.calls import BAD_CONFIG, Call, CniError

_OLD = f"!{MACHINE_LABEL},!{NODE_LABEL}"
"""NICs of machines that no agent has met since machines' have a label; those of instances are among them."""


async def find_name(
    client: Client,
    holder: Holder,
    annotations: Mapping[str, str],
    network: Network,
    call: Call,
    ips: Sequence[str],
) -> Holder:
    """Return the holder, or its name where addresses are kept for that. Raises CniError, KubeError.

    One that got a NIC of its own before they were keeps that. So does a machine that comes from another NAD of the
    network: a guest keeps its address there. While it runs, none of its addresses may change, so its NIC must have what
    the new NAD asks for (`ips`).
    """
    asked = annotations.get(STICKY_FOR)
    try:
        period = kept_for(network.spec.sticky_for, asked, holder.named)
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"annotation {STICKY_FOR}: {error}") from None
    named = holder_by_name(holder, call, period) if period else holder
    if not period and not holder.nad:
        return holder
    for one in dict.fromkeys((holder.nic, named.nic)):
        if await get_or_none(client, NICS, Key(holder.namespace, one)) is not None:
            return holder if one == holder.nic else named
    nic = await _nic_elsewhere(client, holder, named, network, ips) if holder.nad else None
    if nic is None:
        return named
    return replace(
        holder,
        nic=nic.metadata.name,
        owner=nic.spec.owner,
        sticky_for=nic.metadata.annotations.get(STICKY_FOR, "") and period,
    )


async def find_nic(client: Client, holder: Holder, call: Call) -> Nic | None:
    """Return the NIC that a holder has already, whichever way it was named; None if there is none. Raises KubeError."""
    for one in (holder, holder_by_name(holder, call, "")):
        nic = await get_or_none(client, NICS, Key(one.namespace, one.nic))
        if nic is not None:
            return nic
    if not holder.nad:
        return None
    nics = await _nics_of(client, holder, holder_by_name(holder, call, ""))
    return next((nic for nic in nics if holder.nad in nads_of(nic)), None)


async def _nic_elsewhere(
    client: Client, holder: Holder, named: Holder, network: Network, ips: Sequence[str]
) -> Nic | None:
    """Return the NIC that a machine, or its name, has by another NAD of a network and can go on with."""
    for nic in await _nics_of(client, holder, named):
        here = nic.spec.network == network.metadata.name
        if holder.nad in nads_of(nic):
            if here or not holder.runs:
                return nic
            # The NAD was of the NIC's network before: the NIC would be kept for a machine that does not use it.
            await _unmark(client, nic, holder.nad)
        elif here and (not holder.runs or satisfies(network.pool_ranges, _given(nic), ips)):
            return nic
    return None


def _given(nic: Nic) -> Sequence[str]:
    """Return the addresses that a NIC has in the network that it asks for."""
    return nic.status.ips if nic.status.network == nic.spec.network else ()


async def _unmark(client: Client, nic: Nic, nad: str) -> None:
    marks = marked([item for item in nads_of(nic) if item != nad])
    meta = {"resourceVersion": nic.metadata.resource_version, "annotations": marks}
    with suppress(Conflict), ignore_not_found(nic.metadata.name):
        await client.patch(NICS, nic.metadata.name, {"metadata": meta}, nic.metadata.namespace)


async def _nics_of(client: Client, *holders: Holder) -> list[Nic]:
    """Return the NICs that agents made for a machine's network: marked with its NAD first, then the latest."""
    holder, owners = holders[0], [item.owner for item in holders]
    for labels in (f"{MACHINE_LABEL}={label_value(holder.owner.name)}", _OLD):
        listing = await client.list(NICS, holder.namespace, labels=labels)
        found = [
            nic
            for nic in listing.items
            if nic.spec.owner in owners and nic.spec.interface == holder.interface and nads_of(nic)
        ]
        if found:
            break
    found.sort(key=lambda nic: nic.metadata.creation_timestamp or "", reverse=True)
    found.sort(key=lambda nic: (holder.nad not in nads_of(nic), nic.metadata.is_deleting))
    return found
