"""Who may do what to the NADs of isolated networks: they follow from these, whoever writes them."""

from collections.abc import Iterable, Sequence

from lanloom.api.dummy import ADMITTED, DRAINING, UID_LABEL, DummyClusterNetwork
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.dummy.rules.admitted import Admitted
from lanloom.dummy.rules.errors import InvalidSpec, Refused
from lanloom.dummy.rules.listing import listed
from lanloom.dummy.rules.marks import owner_of
from lanloom.dummy.rules.model import Isolated, User
from lanloom.dummy.rules.nad import is_as_wanted
from lanloom.dummy.rules.spec import parse


def concerns(new: NetworkAttachmentDefinition | None, old: NetworkAttachmentDefinition | None) -> bool:
    """Whether a request is about the NAD of an isolated network, or about one that is to become that."""
    return any(item is not None and owner_of(item) for item in (new, old))


def check_foreign_nad(new: NetworkAttachmentDefinition, networks: Iterable[DummyClusterNetwork]) -> None:
    """A new NAD that is nobody's takes no place of an isolated network's. Raises Refused."""
    for item in networks:
        if item.spec.nad == new.metadata.key and not item.metadata.is_leaving:
            raise Refused(
                f"{_title(new)}: metadata.name: DummyClusterNetwork {item.metadata.name} makes a NAD of that name "
                "here; choose another name, or delete the DummyClusterNetwork first"
            )


def check_nad(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    networks: Iterable[DummyClusterNetwork],
    *,
    by_manager: bool,
) -> None:
    """Raises Refused. A NAD whose network is gone is anybody's to change."""
    known = {item.metadata.uid: item for item in networks}
    uid, was = owner_of(new), owner_of(old) if old is not None else ""
    if was != uid and was in known:
        raise Refused(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] tells that it belongs to DummyClusterNetwork "
            f"{known[was].metadata.name}; leave the label as it is"
        )
    owner = known.get(uid)
    if owner is None:
        if uid and uid != was:
            raise Refused(
                f'{_title(new)}: metadata.labels[{UID_LABEL}] is "{uid}", but no DummyClusterNetwork has that uid; '
                "leave the label out"
            )
        return
    if uid != was:
        _check_adoption(new, owner)
    elif old is not None and new.spec.config != old.spec.config and not _is_wanted(new, owner):
        raise Refused(
            f"{_title(new)}: spec.config follows from DummyClusterNetwork {owner.metadata.name}; "
            "change that one's spec.subnet or spec.gateway instead, or create another one for another bridge"
        )
    _check_marks(new, old if uid == was else None, owner, by_manager=by_manager)


def check_nad_deletion(
    nad: NetworkAttachmentDefinition, networks: Iterable[DummyClusterNetwork], *, by_manager: bool
) -> None:
    """A NAD goes when its network does, and a manager may delete one that nobody new can refer to. Raises Refused."""
    uid = owner_of(nad)
    owner = next((item for item in networks if item.metadata.uid == uid), None)
    if owner is None:
        return
    name = owner.metadata.name
    if not owner.metadata.is_leaving:
        raise Refused(
            f"{_title(nad)}: it belongs to DummyClusterNetwork {name}; delete that one (kubectl delete dcn {name})"
        )
    if not (by_manager and DRAINING in nad.metadata.annotations):
        raise Refused(
            f"{_title(nad)}: it goes by itself with DummyClusterNetwork {name}, which is being deleted; "
            f"kubectl get dcn {name} -o wide tells what it waits for"
        )


def check_unused(
    nad: NetworkAttachmentDefinition, users: Sequence[User], requests: Sequence[Admitted]
) -> None:
    """Nobody uses the NAD, and nobody can come who was allowed to. Raises Refused."""
    if users:
        raise Refused(
            f"{_title(nad)}: it is used by {listed(map(str, users))}; take them off the network, or delete them"
        )
    if requests:
        titles = listed(item.title for item in requests)
        raise Refused(
            f"{_title(nad)}: {titles} may still come and use it; try again in a minute, or when it is known"
        )


def _check_adoption(new: NetworkAttachmentDefinition, owner: DummyClusterNetwork) -> None:
    if owner.metadata.is_leaving:
        raise Refused(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] is the uid of DummyClusterNetwork {owner.metadata.name}, "
            "which is being deleted; wait until that one is gone"
        )
    if owner.spec.nad != new.metadata.key or not _is_wanted(new, owner):
        raise Refused(
            f"{_title(new)}: metadata.labels[{UID_LABEL}] is the uid of DummyClusterNetwork {owner.metadata.name}, "
            "which wants another NAD; leave the label out, Lanloom makes its NADs itself"
        )


def _check_marks(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    owner: DummyClusterNetwork,
    *,
    by_manager: bool,
) -> None:
    before = old.metadata.annotations if old is not None else {}
    after = new.metadata.annotations
    name, leaves = owner.metadata.name, owner.metadata.is_leaving
    if before.get(DRAINING) != after.get(DRAINING):
        if DRAINING in after and not leaves:
            raise Refused(
                f"{_title(new)}: metadata.annotations[{DRAINING}] says that DummyClusterNetwork {name} is being "
                "deleted, and it is not; leave the annotation out"
            )
        if DRAINING in before and leaves:
            raise Refused(
                f"{_title(new)}: metadata.annotations[{DRAINING}] stays until DummyClusterNetwork {name} is gone; "
                "leave it as it is"
            )
    if before.get(ADMITTED) != after.get(ADMITTED) and not by_manager:
        raise Refused(
            f"{_title(new)}: metadata.annotations[{ADMITTED}] is written by Lanloom's manager only; "
            "leave it as it is"
        )


def _is_wanted(nad: NetworkAttachmentDefinition, owner: DummyClusterNetwork) -> bool:
    wanted = _wanted(owner)
    return wanted is not None and is_as_wanted(nad, wanted)


def _wanted(owner: DummyClusterNetwork) -> Isolated | None:
    try:
        return parse(owner)
    except InvalidSpec:
        return None


def _title(nad: NetworkAttachmentDefinition) -> str:
    return f"NetworkAttachmentDefinition {nad.metadata.key}"
