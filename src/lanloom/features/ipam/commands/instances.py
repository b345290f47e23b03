"""Instances as their users see them: the NICs in a namespace that name the same owner, in order.

A virtual machine of KubeVirt is an instance too. NICs that are being deleted belong to none any more, though they keep
their addresses until their owner has ended.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct

from lanloom.api.ipam import (
    ALLOCATED,
    INSTANCE,
    VIRTUAL_MACHINE,
    Network,
    Nic,
)
from lanloom.features.ipam.cli.grammar.nics import WantedNic
from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.state import State, is_refused, is_satisfied, owned
from lanloom.kube.conditions import find as find_condition
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

KINDS = (INSTANCE, VIRTUAL_MACHINE)

READY, WAITING, REFUSED = "ready", "waiting", "refused"
"""How a NIC fares."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class Instance(Struct, frozen=True, kw_only=True):
    """An instance and its NICs. `networks` are those of the cluster, by object name."""

    namespace: str
    name: str
    nics: tuple[Nic, ...]
    networks: dict[str, Network] = {}

    @property
    def kind(self) -> str:
        """The kind: VirtualMachine as soon as one of its NICs is a machine's, else Instance."""
        kinds = {nic.spec.owner.kind for nic in self.nics}
        return VIRTUAL_MACHINE if VIRTUAL_MACHINE in kinds else INSTANCE


def check_instance(name: str) -> None:
    """Raise Malformed for what can be no instance's name. Unlike names in options it may look like anything else."""
    if not _NAME.fullmatch(name):
        raise Malformed(
            f"{quote(name)} can't be the name of an instance: use letters, digits, dots, dashes and underscores, "
            "253 at most, and begin and end with a letter or digit"
        )


def instances(state: State, namespace: str = "") -> list[Instance]:
    """Return the instances of a namespace, or of all, by namespace and name."""
    networks = state.by_id()
    mine = (
        nic
        for nic in state.nics
        if nic.spec.owner.kind in KINDS
        and not nic.metadata.is_deleting
        and namespace in ("", nic.metadata.namespace)
    )
    return [
        Instance(namespace=place, name=name, nics=tuple(nics), networks=networks)
        for (place, name), nics in groupby(sorted(mine, key=_order), key=_owner)
    ]


def find_instance(state: State, namespace: str, name: str) -> Instance | None:
    """Return the instance of that name, if there is one."""
    return next((item for item in instances(state, namespace) if item.name == name), None)


def the_instance(state: State, namespace: str, name: str) -> Instance:
    """Return the instance of that name. Raises Denied."""
    found = find_instance(state, namespace, name)
    if found is None:
        known = listed(item.name for item in instances(state, namespace)) or "none"
        raise Denied(
            f"instance {quote(name)} does not exist in namespace {namespace}; its instances are: {known}"
        )
    return found


def wanted_nics(nics: Iterable[Nic]) -> tuple[WantedNic, ...]:
    """Return NICs as the rules see them. Raises Malformed."""
    return tuple(map(_wanted, nics))


def refusal(nic: Nic) -> str:
    """Return why the manager did not grant what a NIC requests; empty if it did, or has not processed it yet."""
    condition = find_condition(nic.status.conditions, ALLOCATED)
    return (condition.message or condition.reason) if condition is not None and is_refused(nic) else ""


def held_by(nic: Nic) -> tuple[Address, ...]:
    """Return a NIC's addresses in the network of its spec. Raises Malformed."""
    return owned(nic) if nic.status.network == nic.spec.network else ()


def state_of(nic: Nic) -> str:
    """Return READY, WAITING or REFUSED. A NIC that requests nothing and has nothing needs no manager."""
    if not nic.spec.ips and not nic.status.ips:
        return READY
    return READY if is_satisfied(nic) else REFUSED if is_refused(nic) else WAITING


def _wanted(nic: Nic) -> WantedNic:
    spec, held = nic.spec, held_by(nic)
    settled = is_satisfied(nic)
    return WantedNic(
        key=str(nic.metadata.key),
        uuid=spec.uuid or nic.metadata.uid,
        name=spec.name,
        network=spec.network,
        ips=tuple(map(format_address, held)) if settled else spec.ips,
        held=held,
        release=() if settled else spec.release,
        force=spec.force,
        mac=spec.mac,
        mode=spec.mode,
        link=spec.link,
        vlan=spec.vlan,
    )


def _owner(nic: Nic) -> tuple[str, str]:
    return nic.metadata.namespace, nic.spec.owner.name


def _order(nic: Nic) -> tuple[str, str, int, str]:
    return *_owner(nic), nic.spec.index, nic.metadata.name
