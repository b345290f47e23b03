"""Networks of addresses that a feature creates for an object of its own: their names, bodies and repairs.

An administrator may add names, reservations and quotas to such a Network. They stay. What would be undone is refused.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from lanloom.api import dummy, lan
from lanloom.api.ipam import NETWORKS, Network, PoolSpec, SubnetSpec
from lanloom.refusals import Denied

Raw = dict[str, Any]

SLUG_MAX = 40


def unique_name(name: str, uid: str, fallback: str = "net") -> str:
    """Return `<slug of the name, at most 40 characters>-<8 hexadecimal digits of the SHA-256 of the uid>`.

    It is a DNS-1123 label. Two objects never share one, whatever their names are. An object that is created again with
    the same name gets another one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:SLUG_MAX].strip("-") or fallback
    return f"{slug}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def is_made(network: Network) -> bool:
    """Return whether a Network was created for a LAN or an isolated network."""
    return not network.metadata.labels.keys().isdisjoint((lan.UID_LABEL, dummy.UID_LABEL))


class MadeSubnet(Struct, frozen=True):
    """A subnet with one pool, which is all of it; `gateway` is empty or an address in it.

    `dhcp` says whether guests get their addresses by DHCP, None to leave that alone.
    """

    cidr: str
    gateway: str = ""
    dhcp: bool | None = None


class MadeNetwork(Struct, frozen=True, kw_only=True):
    """A Network as the controller that creates it wants it. Without `namespaces`, those of the Network stay."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    subnets: tuple[MadeSubnet, ...]
    namespaces: tuple[str, ...] = ()

    def body(self) -> Raw:
        """Return the whole Network, to be created."""
        return {
            "apiVersion": NETWORKS.api_version,
            "kind": NETWORKS.kind,
            "metadata": {
                "name": self.name,
                "labels": dict(self.labels),
                "annotations": dict(self.annotations),
            },
            "spec": {"subnets": [_body(_spec(item)) for item in self.subnets]} | self._served(),
        }

    def repair(self, current: Network) -> Raw:
        """Return the merge patch on the version that was read; empty if the Network is as wanted.

        A subnet that stays keeps its UUID and what an administrator added to it, as does the only one.
        """
        patch: Raw = {}
        meta = current.metadata
        for field, wanted, have in (
            ("labels", self.labels, meta.labels),
            ("annotations", self.annotations, meta.annotations),
        ):
            if missing := {key: text for key, text in wanted.items() if have.get(key) != text}:
                patch.setdefault("metadata", {})[field] = missing
        if not self._is_met_by(current.spec.subnets):
            wanted_specs = [_spec(item, self._former(item, current)) for item in self.subnets]
            patch["spec"] = {"subnets": list(map(_body, wanted_specs))}
        if self.namespaces and current.spec.namespaces != self.namespaces:
            patch["spec"] = patch.get("spec", {}) | self._served()
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = meta.resource_version
        return patch

    def check(self, new: Network | None, old: Network | None, owner: str) -> tuple[str, ...]:
        """Check what a user writes; return warnings. Raises Denied for what a repair would undo. `owner` is a title.

        A fault that was there before is no reason: its repair is under way.
        """
        if new is None:
            is_ours = old is not None and old.metadata.name == self.name
            again = f"Network {self.name} belongs to {owner}, for which it is created again; delete that one instead"
            return (again,) if is_ours else ()
        if new.metadata.name != self.name:
            return ()
        now, before = _stated(new), _stated(old) if old is not None else {}
        for field in _fields(self.repair(new)):
            if old is None or before.get(field) != now.get(field):
                exclude = "; to exclude addresses, make them external" if field == _SUBNETS else ""
                raise Denied(
                    f"Network {self.name}: {field} follows from {owner}, to which the Network belongs; change that one "
                    f"instead{exclude}"
                )
        return ()

    def _is_met_by(self, found: tuple[SubnetSpec, ...]) -> bool:
        return len(found) == len(self.subnets) and all(map(_is_as, found, self.subnets))

    def _former(self, subnet: MadeSubnet, current: Network) -> SubnetSpec:
        found = current.spec.subnets
        only = len(found) == len(self.subnets) == 1
        return next((item for item in found if only or _ends(item.cidr) == _ends(subnet.cidr)), _NEW)

    def _served(self) -> Raw:
        return {"namespaces": list(self.namespaces)} if self.namespaces else {}


def _is_as(found: SubnetSpec, wanted: MadeSubnet) -> bool:
    """Return whether a subnet is as wanted, in whichever form its addresses are written."""
    pools = [(_ends(pool.range), pool.name, pool.disabled) for pool in found.pools]
    same = (_ends(found.cidr), _ends(found.gateway)) == (_ends(wanted.cidr), _ends(wanted.gateway))
    return same and pools == [(_ends(wanted.cidr), "", False)] and wanted.dhcp in (None, found.dhcp)


_SUBNETS = "spec.subnets"


def _fields(patch: Raw) -> Iterator[str]:
    """Yield the fields that a repair writes."""
    meta = patch.get("metadata", {})
    yield from (f"metadata.{name}[{key}]" for name in ("labels", "annotations") for key in meta.get(name, ()))
    yield from (f"spec.{name}" for name in patch.get("spec", ()))


def _stated(network: Network) -> dict[str, object]:
    """Return the values of the fields that a repair may write."""
    meta, spec = network.metadata, network.spec
    return {
        **{f"metadata.labels[{key}]": value for key, value in meta.labels.items()},
        **{f"metadata.annotations[{key}]": value for key, value in meta.annotations.items()},
        _SUBNETS: spec.subnets,
        "spec.namespaces": spec.namespaces,
    }


_NEW = SubnetSpec(cidr="")


def _spec(subnet: MadeSubnet, former: SubnetSpec = _NEW) -> SubnetSpec:
    """Return a subnet as it is wanted, with what was added to it: a reservation only as far as it is in it still."""
    return replace(
        former,
        cidr=subnet.cidr,
        gateway=subnet.gateway,
        dhcp=former.dhcp if subnet.dhcp is None else subnet.dhcp,
        pools=(PoolSpec(range=subnet.cidr),),
        external=tuple(text for text in former.external if _is_inside(text, subnet.cidr)),
    )


def _body(spec: SubnetSpec) -> Raw:
    found: Raw = to_builtins(spec)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}


def _is_inside(range_: str, cidr: str) -> bool:
    """Return whether a range is in a subnet; False for what is none."""
    subnet, ends = _ends(cidr), _ends(range_)
    return bool(subnet and ends) and all(end in ip_network(cidr) for end in ends)


def _ends(text: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """Return the first and the last address of `first-last`, of one address, or of a CIDR; nothing for what is none."""
    first, _, last = text.partition("-")
    try:
        return ip_network(first)[0], ip_network(last or first)[-1]
    except ValueError:
        return ()
