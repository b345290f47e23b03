"""The users of a LAN: objects that refer to its NADs, or to another NAD that names a spoke, and what is attached.

A reference keeps a LAN before anything is attached, and nodes report what is, whichever NAD it came by.
"""

from collections.abc import Iterable, Iterator

from lanloom.api.core import PODS
from lanloom.api.lan import LAN, LANNode, Spoke
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.nads import owner_of
from lanloom.nads.references import NadUse


def attached(uid: str, reports: Iterable[LANNode]) -> Iterator[tuple[str, Spoke]]:
    """Yield the attached spokes of a LAN, each with its node."""
    for report in reports:
        for entry in report.status.lans:
            if entry.uid == uid:
                yield from ((report.metadata.name, spoke) for spoke in entry.spokes)


def admitted(lan: LAN, naming: Iterable[NetworkAttachmentDefinition]) -> frozenset[Key]:
    """Return the NADs of others by which users come to a LAN, out of those that are `naming` a spoke of it.

    NADs of namespaces that the LAN does not admit bring no users: these can't keep it.
    """
    others = (nad.metadata for nad in naming if owner_of(nad.metadata) != lan.metadata.uid)
    return frozenset(meta.key for meta in others if lan.admits(meta.namespace))


def users_of(use: NadUse, nads: Iterable[Key], lan: LAN | None) -> tuple[str, ...]:
    """Return the users of a LAN's NADs, for messages; ordered.

    An object that refers to a NAD from a namespace that the LAN does not admit attaches nowhere, and can't keep the
    LAN. Of a LAN that is gone, None, all users count.
    """
    found = (user for nad in nads for user in use.users_of(nad))
    return tuple(sorted({str(user) for user in found if lan is None or lan.admits(user.namespace)}))


def with_attached(use: NadUse, users: Iterable[str], there: Iterable[tuple[str, Spoke]]) -> tuple[str, ...]:
    """Return the users, and those of the attached spokes who are not among them, by whichever NAD they came."""
    every = set(users)
    for _, spoke in there:
        namespace, _, name = spoke.pod.partition("/")
        title = str(use.user_of(Key(namespace, name))) if name else ""
        if title and not any(user == title or user.startswith(f"{title} (") for user in every):
            every.add(title)
    return tuple(sorted(every))


def title_at(node: str, spoke: Spoke) -> str:
    """Return an attached spoke for messages, with its pod if that is known."""
    pod = f": {PODS.kind} {spoke.pod}" if spoke.pod else ""
    return f"spoke {spoke.name} ({spoke.mode}) on node {node}{pod}"
