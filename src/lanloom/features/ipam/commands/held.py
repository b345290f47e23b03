"""Addresses that are kept for a name that no object has."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from lanloom.api.ipam import HELD_UNTIL, Nic


class Hold(Struct, frozen=True, kw_only=True):
    """Addresses of a NIC that belongs to a name which no object has. `until` is RFC 3339."""

    nic: str
    owner: str
    ips: tuple[str, ...]
    until: str


def holds_of(nics: Iterable[Nic], network: str) -> Iterator[Hold]:
    """Yield the holds of a network by its object's name, those that end first before others."""
    held = [
        nic
        for nic in nics
        if nic.is_sticky and nic.status.network == network and nic.metadata.annotations.get(HELD_UNTIL)
    ]
    for nic in sorted(held, key=lambda nic: (nic.metadata.annotations[HELD_UNTIL], nic.metadata.key)):
        meta, owner = nic.metadata, nic.spec.owner
        yield Hold(
            nic=str(meta.key),
            owner=f"{owner.kind} {meta.namespace}/{owner.name}",
            ips=nic.status.ips,
            until=meta.annotations[HELD_UNTIL],
        )
