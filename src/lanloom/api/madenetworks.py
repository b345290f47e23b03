"""Networks of addresses that a feature creates for an object of its own: their names, bodies and repairs.

An administrator may add names, reservations and quotas to such a Network. They stay.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, Network, PoolSpec, SubnetSpec

Raw = dict[str, Any]

SLUG_MAX = 40


def unique_name(name: str, uid: str, fallback: str = "net") -> str:
    """Return `<slug of the name, at most 40 characters>-<8 hexadecimal digits of the SHA-256 of the uid>`.

    It is a DNS-1123 label. Two objects never share one, whatever their names are. An object that is created again with
    the same name gets another one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:SLUG_MAX].strip("-") or fallback
    return f"{slug}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


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
            "spec": {"subnets": [_body(item, "") for item in self.subnets]} | self._served(),
        }

    def repair(self, current: Network) -> Raw:
        """Return the merge patch on the version that was read; empty if the Network is as wanted.

        A subnet that stays keeps its UUID, as does the only one.
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
            patch["spec"] = {"subnets": [_body(item, self._uuid(item, current)) for item in self.subnets]}
        if self.namespaces and current.spec.namespaces != self.namespaces:
            patch["spec"] = patch.get("spec", {}) | self._served()
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = meta.resource_version
        return patch

    def _is_met_by(self, found: tuple[SubnetSpec, ...]) -> bool:
        return len(found) == len(self.subnets) and all(map(_is_as, found, self.subnets))

    def _uuid(self, subnet: MadeSubnet, current: Network) -> str:
        found = current.spec.subnets
        only = len(found) == len(self.subnets) == 1
        return next((item.uuid for item in found if only or item.cidr == subnet.cidr), "")

    def _served(self) -> Raw:
        return {"namespaces": list(self.namespaces)} if self.namespaces else {}


def _is_as(found: SubnetSpec, wanted: MadeSubnet) -> bool:
    pools = (PoolSpec(range=wanted.cidr),)
    same = (found.cidr, found.gateway, found.pools) == (wanted.cidr, wanted.gateway, pools)
    return same and wanted.dhcp in (None, found.dhcp)


def _body(subnet: MadeSubnet, uuid: str) -> Raw:
    found: Raw = {"cidr": subnet.cidr, "pools": [{"range": subnet.cidr}]}
    found |= {"gateway": subnet.gateway} if subnet.gateway else {}
    found |= {"dhcp": True} if subnet.dhcp else {}
    return found | ({"uuid": uuid} if uuid else {})
