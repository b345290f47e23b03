"""Addresses for other features: for nodes (`NodePools`), and for machines that move in place (`MachineNics`).

A node has a NIC for each VLAN network that claims an address for it. Claims are reported again after a start, before
anything is reconciled; existing ones are read from the NICs. A NIC is owned by its NAD as well, so that Kubernetes'
garbage collection takes those of a NAD that went while no manager ran.

The NIC of a machine on the new network is the one that its CNI plugin would make when the machine starts there, so the
machine keeps its addresses when it restarts or migrates later. That of the old network goes once nothing uses it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

import msgspec

from lanloom.api.core import Pod
from lanloom.api.ipam import ALLOCATED, NICS, NODE, Network, Nic, NicSpec, OwnerSpec, nads_of
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.ipam.agent.knownnics import find_name, find_nic
from lanloom.features.ipam.agent.nics import (
    allocated,
    answered,
    delete_nic,
    find_network,
    hold_nic,
    nic_body,
    requested_ips,
    settle_nic,
)
from lanloom.features.ipam.agent.pods import config_of, moved_holder
from lanloom.features.ipam.rules.addresses import version_of
from lanloom.features.ipam.rules.model import Network as NetworkModel
from lanloom.features.ipam.rules.model import Subnet
from lanloom.features.ipam.state import State, network_of, owned
from lanloom.kube.conditions import find
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import BadRequest, Forbidden, Invalid
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.kube.refusals import Refusals
from lanloom.refusals import Denied, Malformed
from lanloom.runtime.cni.calls import CniError
from lanloom.runtime.ports import NO_LEASES, ClaimedAddresses, NodeClaim, NodeLeases

REPAIR_SECONDS = 1.0
"""How long after a NIC or network changed the claim is compared with it.

A NAD that is deleted takes its NICs with it at once. If the watch brings that before the NAD's own end, each new NIC
would be deleted again in no time.
"""


class NodePools:
    """The NICs of nodes. Construct with informers that run already or will; `run` is for the leader.

    Nothing is done for a NAD without a claim in this term: a claim of an earlier term may be long out of date.
    """

    def __init__(
        self,
        client: Client,
        nics: Informer[Nic],
        networks: Informer[Network],
        *,
        rng: Random,
        observe: Observer[str] | None = None,
        refusals: Refusals[str] | None = None,
    ) -> None:
        self._client = client
        self._networks = networks
        self._claims: dict[Key, NodeClaim | None] = {}
        self._nics: dict[Key, dict[str, Nic]] = {}
        self._handlers: list[Callable[[Key], None]] = []
        self._controller: Controller[str] = Controller(
            "nodepools", self._reconcile, rng=rng, observe=observe, refusals=refusals
        )
        nics.on_change(self._nic_changed)
        networks.on_change(self._network_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The controllers that run on the leader."""
        return (self._controller,)

    def run(self) -> Coroutine[Any, Any, None]:
        """Run until cancelled. Claims of an earlier term are forgotten by the call itself.

        The claiming feature may begin before the coroutine does, and must not lose its claims.
        """
        self._claims.clear()
        return self._run()

    async def _run(self) -> None:
        try:
            await self._controller.run()
        finally:
            self._claims.clear()

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """Claim addresses for the nodes of a NAD, or, with None, give the claim up."""
        if claim is None and nad not in self._nics:
            self._claims.pop(nad, None)
        elif nad not in self._claims or claim != self._claims[nad]:
            self._claims[nad] = claim
            self._controller.enqueue(str(nad))

    def leases(self, nad: Key) -> NodeLeases:
        """Return the current leases of a NAD's nodes."""
        claim = self._claims.get(nad)
        if claim is None:
            return NO_LEASES
        network = self._find(claim.source.network)
        if network is None:
            why = f"network {claim.source.network} does not exist; create it, or correct the annotation"
            return NodeLeases({}, dict.fromkeys(claim.nodes, why))
        nics = {node: nic for node, nic in self._nics.get(nad, {}).items() if node in claim.nodes}
        holding = {nic.status.network for nic in nics.values() if nic.status.ips}
        # Until another network gives its first address, nodes keep what they still own in the former one.
        if network.metadata.name not in holding and len(holding) == 1:
            network = self._networks.store.get(Key("", holding.pop())) or network
        try:
            return _leases(network_of(network), nics, both=bool(claim.source.second))
        except Malformed as error:
            return NodeLeases({}, dict.fromkeys(claim.nodes, str(error)))

    def are_complete(self, nad: Key) -> bool:
        """Return whether each node that a NAD claims for has an address: NICs are read once there is one for each."""
        claim, nics = self._claims.get(nad), self._nics.get(nad, {})
        return (
            claim is not None
            and len(nics) == len(claim.nodes)
            and all(nic.status.ips for nic in nics.values())
        )

    def on_change(self, handler: Callable[[Key], None]) -> None:
        """Call `handler` with the NAD whenever its leases may have changed."""
        self._handlers.append(handler)

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        for item in (old, new):
            if item is None or item.spec.owner.kind != NODE:
                continue
            nad = Key(item.metadata.namespace, item.spec.interface)
            known = self._nics.setdefault(nad, {})
            if item is new:
                known[item.spec.owner.name] = item
            else:
                known.pop(item.spec.owner.name, None)
            if not known:
                del self._nics[nad]
            self._notify(nad)

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        """Queue claims when the spec changes, which may make one possible. The status changes with every address."""
        if old is not None and new is not None and old.spec == new.spec:
            return
        for nad in tuple(self._claims):
            self._notify(nad)

    def _notify(self, nad: Key) -> None:
        if nad in self._claims:
            self._controller.enqueue_after(str(nad), REPAIR_SECONDS)
        for handler in self._handlers:
            handler(nad)

    async def _reconcile(self, key: str) -> None:
        nad = Key(*key.split("/"))
        if nad not in self._claims:
            return
        claim, present = self._claims[nad], dict(self._nics.get(nad, {}))
        network = self._find(claim.source.network) if claim is not None else None
        wanted = claim.nodes if claim is not None else frozenset()
        for node in sorted(present.keys() - wanted):
            await self._delete(present[node])
        if claim is None or network is None:
            return
        for node in sorted(wanted):
            nic = present.get(node)
            if nic is None:
                await self._client.create(NICS, _body(nad, node, claim, network), nad.namespace)
            elif not nic.metadata.is_deleting:
                await self._correct(nic, _spec(nad, node, claim, network))

    async def _correct(self, nic: Nic, wanted: NicSpec) -> None:
        """Move the NIC to another source. It keeps nothing of pools that are no longer named."""
        if (nic.spec.network, nic.spec.ips) == (wanted.network, wanted.ips):
            return
        named = wanted.ips if nic.spec.network == wanted.network else ()
        kept = {ip for pool, ip in zip(nic.spec.ips, nic.status.ips, strict=False) if pool in named}
        release = [ip for ip in nic.status.ips if ip not in kept]
        spec = {"network": wanted.network, "ips": wanted.ips, "release": release}
        meta = {"resourceVersion": nic.metadata.resource_version}
        await self._client.patch(
            NICS, nic.metadata.name, {"metadata": meta, "spec": spec}, nic.metadata.namespace
        )

    async def _delete(self, nic: Nic) -> None:
        meta = nic.metadata
        if meta.is_deleting:
            return
        with ignore_not_found(meta.name):
            await self._client.delete(NICS, meta.name, meta.namespace, uid=meta.uid)

    def _find(self, ident: str) -> Network | None:
        try:
            return State(self._networks.store.items(), ()).find_referred(ident)
        except Denied:
            return None


def _leases(network: NetworkModel, nics: Mapping[str, Nic], *, both: bool) -> NodeLeases:
    """Return addresses of one subnet: that of the first node by name, as nodes on one VLAN are neighbours.

    With `both` that holds for each IP version. A node without an IPv4 address has none.
    """
    found: dict[int, dict[str, str]] = {4: {}, 6: {}}
    subnets: dict[int, Subnet] = {}
    problems: dict[str, str] = {}
    for node in sorted(nics):
        nic = nics[node]
        refusal = find(nic.status.conditions, ALLOCATED)
        if refusal is not None and refusal.status == "False":
            problems[node] = refusal.message
        if nic.status.network != network.id:
            continue
        pairs = zip(owned(nic), nic.status.ips, strict=True)
        # One of IPv6 that is no longer asked for goes back soon; a node that has no other address is reported.
        for address, text in pairs if both else sorted(pairs, key=lambda pair: version_of(pair[0]))[:1]:
            version, subnet = version_of(address), network.subnet_of(address)
            addresses = found[version]
            if subnet is None or (version != 4 and not both):
                problems[node] = f"{text} is in no IPv4 subnet of network {network.name}"
            elif node in addresses:
                problems[node] = f"{text} is the second IPv{version} address; name a pool of each IP version"
            elif subnets.setdefault(version, subnet).cidr != subnet.cidr:
                problems[node] = (
                    f"{text} is not in the subnet {subnets[version].cidr} of the other nodes; "
                    "name a pool of one subnet"
                )
            else:
                addresses[node] = f"{text}/{subnet.cidr.length}"
    for node in found[6].keys() - found[4].keys():
        problems.setdefault(node, "it has no IPv4 address; name a pool of each IP version")
    return NodeLeases(found[4], problems, {node: found[6].get(node, "") for node in found[4]} if both else {})


def _spec(nad: Key, node: str, claim: NodeClaim, network: Network) -> NicSpec:
    return NicSpec(
        owner=OwnerSpec(kind=NODE, name=node),
        network=network.metadata.name,
        ips=claim.source.requests,
        interface=nad.name,
    )


def _body(nad: Key, node: str, claim: NodeClaim, network: Network) -> dict[str, Any]:
    """Return the NIC of a node. Two managers that make it at once make the same."""
    digest = hashlib.sha256(json.dumps([*nad, node]).encode()).hexdigest()[:10]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{nad.name}-{node}")[:40].strip("-")
    meta = {"name": f"{slug}-{digest}", "ownerReferences": [msgspec.to_builtins(claim.owner)]}
    return {"metadata": meta, "spec": msgspec.to_builtins(_spec(nad, node, claim, network))}


NONE = ClaimedAddresses(ready=True)


class MachineNics:
    """Make and release NICs of machines."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def claim(
        self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: NetworkAttachmentDefinition
    ) -> ClaimedAddresses:
        """Implement the port."""
        config = config_of(nad)
        if config is None:
            return NONE
        try:
            wanted = parse_ipam(config)
            found = await find_network(self._client, wanted.network)
            holder, call = moved_holder(instance, pod, network, nad.metadata.key, config)
            ips = requested_ips(pod.metadata.annotations, holder, wanted)
            holder = await find_name(self._client, holder, pod.metadata.annotations, found, call, ips)
            body = nic_body(holder, found.metadata.name, ips, call, pod.spec.node_name)
            nic = await settle_nic(self._client, body, holder.namespace, may_change=False)
            nic = await hold_nic(self._client, nic, pod.metadata.uid)
        except CniError as error:
            return _refused(nad, error.msg)
        except (BadRequest, Forbidden, Invalid) as error:
            return _refused(nad, f"the API server refuses the Nic: {error}")
        return _claimed(nic)

    async def release(
        self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: Key, stays: Key
    ) -> None:
        """Implement the port."""
        nic = await find_nic(self._client, *moved_holder(instance, pod, network, nad, {}))
        if nic is not None and str(stays) not in nads_of(nic):
            await delete_nic(self._client, nic.metadata.key, nic.metadata.uid)


def _refused(nad: NetworkAttachmentDefinition, why: str) -> ClaimedAddresses:
    return ClaimedAddresses(ready=False, problem=f"NetworkAttachmentDefinition {nad.metadata.key}: {why}")


def _claimed(nic: Nic) -> ClaimedAddresses:
    if allocated(nic):
        return ClaimedAddresses(ready=True, addresses=nic.status.ips)
    if not answered(nic):
        return ClaimedAddresses(ready=False)
    condition = find(nic.status.conditions, ALLOCATED)
    words = condition.message if condition is not None else "it has no addresses"
    return ClaimedAddresses(ready=False, problem=f"Nic {nic.metadata.key}: {words}")
