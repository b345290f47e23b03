"""What webhooks refuse of LANs in use, of their NADs, and of what agents report.

NADs of a LAN follow from the LAN: the manager makes, repairs and removes them. Any user may label and annotate them as
long as the marks stay by which they are known.
"""

from collections.abc import Iterable, Mapping

from lanloom.api.dummy import ADMITTED, DRAINING, GUARDED
from lanloom.api.lan import FORCE_DELETE, LAN, UID_LABEL, LANNode, not_admitted
from lanloom.api.lannads import RESOURCE_NAME, spoke_of, spokes_named
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.claims import age_of
from lanloom.features.lan.rules.nads import WantedNad, is_as_wanted, is_config_wanted, owner_of, wanted_nads
from lanloom.features.lan.rules.spec import title_beside, title_of
from lanloom.refusals import Denied
from lanloom.text import listed, quote

LansByUid = Mapping[str, LAN]


JOINED = (
    "spec.hostBridge is written by Lanloom's manager only, for an isolated network that spans the cluster; create a "
    'DummyClusterNetwork with spec.scope "cluster" instead'
)
JOINED_CHANGE = (
    "an isolated network that spans the cluster stands on it, and Lanloom's manager writes its spec; change the "
    "DummyClusterNetwork instead"
)
JOINED_DELETION = (
    "an isolated network that spans the cluster stands on it, and it goes with that one; delete the "
    "DummyClusterNetwork instead"
)


def is_joined(new: LAN, old: LAN | None) -> bool:
    """Return whether a LAN is, or was, joined to a bridge of the hosts."""
    return any(lan is not None and lan.spec.host_bridge is not None for lan in (new, old))


def is_forced(lan: LAN) -> bool:
    """Return whether a LAN is to go even in use."""
    return lan.metadata.annotations.get(FORCE_DELETE) == "true"


def removed_spokes(old: LAN, new: LAN) -> tuple[str, ...]:
    """Return the spokes that an update takes away."""
    return tuple(sorted(frozenset(old.spec.spokes) - frozenset(new.spec.spokes)))


def check_removed_spokes(lan: LAN, users: Mapping[str, Iterable[str]]) -> None:
    """Raise Denied where a spoke that is taken away has users. `users` are those by spoke."""
    for spoke, using in users.items():
        if found := listed(using):
            raise Denied(
                f"{title_of(lan)}: spec.spokes: the spoke {quote(spoke)} is used by {found}; take them off the "
                "network, or delete them, and then remove the spoke"
            )


def check_reported(old: LAN, new: LAN, reports: Iterable[LANNode]) -> None:
    """Raise Denied where a node has links that an update takes away, or puts elsewhere.

    A node that is not ready has no frames of others to lose: the update may be what makes it so.
    """
    removed = frozenset(removed_spokes(old, new))
    for report in reports:
        node = report.metadata.name
        for entry in report.status.lans:
            if entry.uid != old.metadata.uid:
                continue
            if entry.ready and (why := _rerouted(old, new, node)):
                raise Denied(
                    f"{title_of(new)}: {why} while node {node} has the LAN ready; move its pods away first"
                )
            if attached := sorted((spoke.name, spoke.pod) for spoke in entry.spokes if spoke.name in removed):
                name, pod = attached[0]
                raise Denied(
                    f"{title_of(new)}: spec.spokes: node {node} has {f'Pod {pod}' if pod else 'something'} attached to "
                    f"the spoke {quote(name)}; delete the pod that uses it, and then remove the spoke"
                )


def _rerouted(old: LAN, new: LAN, node: str) -> str:
    """Return what an update changes of how frames come to a node or leave it; empty if nothing."""
    before, after = old.spec, new.spec
    if before.replication != after.replication:
        return f"spec.replication is {quote(before.replication)} and can't become {quote(after.replication)}"
    if before.underlay_family != after.underlay_family:
        versions = (quote(before.underlay_family), quote(after.underlay_family))
        return "spec.underlayFamily is {} and can't become {}".format(*versions)
    if (was := before.underlay(node)) != (becomes := after.underlay(node)):
        by_map = before.vxlan_dev_map.get(node) != after.vxlan_dev_map.get(node)
        field = "vxlanDevMap" if by_map else "defaultVxlanDev"
        return f"spec.{field}: the underlay of node {node} is {quote(was)} and can't become {quote(becomes)}"
    return ""


def concerns(new: NetworkAttachmentDefinition | None, old: NetworkAttachmentDefinition | None) -> bool:
    """Return whether a request may be about the NAD of a LAN."""
    return any(
        item is not None and (owner_of(item.metadata) or spoke_of(item.metadata.name)) for item in (new, old)
    )


def check_nad(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, lans: Iterable[LAN]
) -> None:
    """Raise Denied for what only a manager writes. A NAD whose LAN is gone may be changed by any user."""
    every = tuple(lans)
    by_uid = {lan.metadata.uid: lan for lan in every}
    uid, was = owner_of(new.metadata), owner_of(old.metadata) if old is not None else ""
    if old is not None and was in by_uid:
        _check_change(new, old, by_uid[was])
        return
    if uid and uid != was:
        _check_claimed_owner(new, by_uid.get(uid))
    maker, wanted = _maker(new, every)
    if old is None and maker is not None and wanted is not None and not is_as_wanted(wanted, new):
        raise Denied(
            f"{_title(new)}: metadata.name: {title_of(maker)} makes a NAD of that name here; choose another name, or "
            "take the spoke out of the LAN first"
        )


def check_border(nad: NetworkAttachmentDefinition, lans: Iterable[LAN]) -> None:
    """Raise Denied for a NAD that names a spoke of a LAN which does not admit the NAD's namespace.

    Its pods would be refused on every node. Of several LANs with a spoke the oldest one has it.
    """
    every, namespace = sorted(lans, key=age_of), nad.metadata.namespace
    for spoke in sorted(spokes_named(nad)):
        owner = next((lan for lan in every if spoke in lan.spec.spokes), None)
        if owner is not None and not owner.admits(namespace):
            raise Denied(f"{_title(nad)}: spec.config: {not_admitted(spoke, namespace)}")


def check_nad_deletion(nad: NetworkAttachmentDefinition, lans: LansByUid, *, by_manager: bool) -> None:
    """Check that a NAD goes with its LAN or spoke, after no new users were let in. Raises Denied."""
    owner = lans.get(owner_of(nad.metadata))
    if owner is None or owner.metadata.namespace != nad.metadata.namespace:
        return
    title, spoke = title_of(owner), spoke_of(nad.metadata.name)
    if by_manager and (DRAINING in nad.metadata.annotations or is_forced(owner)):
        return
    if not owner.metadata.is_deleting and spoke in owner.spec.spokes:
        raise Denied(
            f"{_title(nad)}: it belongs to {title}; take {quote(spoke)} out of its spec.spokes, or delete the LAN "
            f"(kubectl -n {owner.metadata.namespace} delete lan {owner.metadata.name})"
        )
    raise Denied(
        f"{_title(nad)}: it goes by itself once it has no users, as {title} gives it up; "
        f"lanloom lan show {owner.metadata.namespace}/{owner.metadata.name} tells what it waits for"
    )


def check_unused(nad: NetworkAttachmentDefinition, users: Iterable[str], requests: Iterable[str]) -> None:
    """Check that a NAD without a LAN has no users, and that none can come. Raises Denied."""
    if found := listed(users):
        raise Denied(f"{_title(nad)}: it is used by {found}; take them off the network, or delete them")
    if found := listed(requests):
        raise Denied(f"{_title(nad)}: {found} may still come and use it; try again in a minute")


def check_report(report: LANNode, node: str, verb: str) -> None:
    """Raise Denied unless an agent writes its own node's report. An agent whose node is not known is of node ""."""
    if report.metadata.name == node and node:
        return
    title = (
        f"LANNode {report.metadata.name}: an agent may only {verb} its own node's, and this is the agent of"
    )
    if node:
        raise Denied(f"{title} node {quote(node)}; it reports as LANNode {node}")
    raise Denied(
        f"{title} no node that is known: its token names none, and no pod that is known; one that has just started is "
        "known in a moment: try again"
    )


def _check_claimed_owner(new: NetworkAttachmentDefinition, owner: LAN | None) -> None:
    if owner is None:
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] or metadata.ownerReferences names a LAN that does not exist; "
            "leave them out: Lanloom makes the NADs of LANs itself"
        )
    wanted = next((item for item in wanted_nads(owner) if item.key == new.metadata.key), None)
    if wanted is None or owner.metadata.is_deleting or not is_as_wanted(wanted, new):
        title = title_beside(owner, new.metadata.namespace)
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] or metadata.ownerReferences names {title}, which wants no "
            "such NAD; leave them out: Lanloom makes the NADs of LANs itself"
        )


def _check_change(new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition, owner: LAN) -> None:
    title = title_beside(owner, new.metadata.namespace)
    if owner_of(new.metadata) != owner_of(old.metadata):
        raise Denied(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] and metadata.ownerReferences tell that it belongs to "
            f"{title}; leave them as they are"
        )
    wanted = next((item for item in wanted_nads(owner) if item.key == new.metadata.key), None)
    if new.spec != old.spec and not (wanted and is_config_wanted(wanted, new.spec.config)):
        raise Denied(f"{_title(new)}: spec.config follows from {title}; leave it as it is")
    before, after = old.metadata.annotations, new.metadata.annotations
    for name in (RESOURCE_NAME, GUARDED, DRAINING, ADMITTED):
        if before.get(name) != after.get(name):
            raise Denied(
                f"{_title(new)}: metadata.annotations[{name}] is written by Lanloom's manager only, for {title}; "
                "leave it as it is"
            )


def _maker(new: NetworkAttachmentDefinition, lans: Iterable[LAN]) -> tuple[LAN | None, WantedNad | None]:
    """Return the LAN that makes a NAD of that name, and the NAD."""
    for lan in lans:
        if lan.metadata.namespace != new.metadata.namespace or lan.metadata.is_deleting:
            continue
        if spoke_of(new.metadata.name) in lan.spec.spokes:
            return lan, next(item for item in wanted_nads(lan) if item.key == new.metadata.key)
    return None, None


def _title(nad: NetworkAttachmentDefinition) -> str:
    return f"NetworkAttachmentDefinition {nad.metadata.key}"
