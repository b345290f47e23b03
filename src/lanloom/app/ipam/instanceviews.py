"""What commands tell of an instance's NICs: as they are, as they would be, and the difference of two forms."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from lanloom.api.ipam import Network, NicSpec
from lanloom.app.ipam.instanceplan import Outlook
from lanloom.app.ipam.instances import READY, Instance, held_by, refusal, state_of
from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.difference import Difference
from lanloom.ipam.rules.query import Value


class NicView(Struct, frozen=True, kw_only=True):
    """A NIC. `network` is what users call it; `ips` are what the NIC owns there, `wanted` what it asks for.

    `state` is ready, waiting or refused; `message` says why it is refused.
    """

    index: int
    object: str
    uuid: str = ""
    name: str = ""
    network: str = ""
    network_uuid: str = ""
    ips: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    mac: str = ""
    mode: str = ""
    link: str = ""
    vlan: str = ""
    state: str = READY
    message: str = ""


def views(instance: Instance) -> tuple[NicView, ...]:
    """The NICs of an instance as they are. Raises Malformed."""
    return tuple(
        _view(
            index,
            nic.metadata.name,
            nic.spec,
            instance.networks,
            uuid=nic.spec.uuid or nic.metadata.uid,
            ips=tuple(map(format_address, held_by(nic))),
            state=state_of(nic),
            message=refusal(nic),
        )
        for index, nic in enumerate(instance.nics)
    )


def foreseen(outlook: Sequence[Outlook], networks: Mapping[str, Network]) -> tuple[NicView, ...]:
    """The NICs as they would be, if everything were written now."""
    return tuple(_view(item.index, item.key.name, item.spec, networks, ips=item.ips) for item in outlook)


def information(instance: Instance) -> dict[str, Value]:
    """Everything of an instance for programs. Raises Malformed."""
    return {
        "name": instance.name,
        "namespace": instance.namespace,
        "kind": instance.kind,
        "nics": [plain(view) for view in views(instance)],
    }


def plain(view: NicView) -> dict[str, Value]:
    """A NIC for programs."""
    return {
        "index": view.index,
        "name": view.name or None,
        "uuid": view.uuid or None,
        "object": view.object,
        "network": view.network or None,
        "network_uuid": view.network_uuid or None,
        "ips": list(view.ips),
        "wanted": list(view.wanted),
        "mac": view.mac or None,
        "mode": view.mode or None,
        "link": view.link or None,
        "vlan": view.vlan or None,
        "state": view.state,
        "message": view.message or None,
    }


def differences(before: Sequence[NicView], after: Sequence[NicView]) -> Iterator[Difference]:
    """What is different, NIC by NIC: those that there are by their new index, then those that are gone."""
    old = {view.object: view for view in before}
    for view in after:
        last = old.pop(view.object, None)
        if last is None:
            yield Difference("+", f"NIC {view.index}{_place(view)}: {summary(view)}")
        elif changed := list(_changes(last, view)):
            yield Difference("~", f"NIC {last.index}{_place(last)}: {'; '.join(changed)}")
    for view in old.values():
        yield Difference("-", f"NIC {view.index}{_place(view)}: {summary(view)}")


def summary(view: NicView) -> str:
    """Addresses, what it is connected to and its MAC address, in words."""
    own = [
        ("mode", view.mode),
        ("link", view.link),
        ("VLAN", view.vlan),
        ("MAC", view.mac),
        ("name", view.name),
    ]
    return ", ".join([addresses(view), *(f"{title} {text}" for title, text in own if text)])


def addresses(view: NicView) -> str:
    """The addresses of a NIC in words, and what it waits for."""
    has = ", ".join(view.ips) or "no address"
    if view.state == READY:
        return has
    return f"{has}; {view.state}, wants {', '.join(view.wanted) or 'none'}"


def _changes(old: NicView, new: NicView) -> Iterator[str]:
    pairs = [
        ("number", str(old.index), str(new.index)),
        ("network", old.network, new.network),
        ("addresses", addresses(old), addresses(new)),
        ("MAC", old.mac, new.mac),
        ("mode", old.mode, new.mode),
        ("link", old.link, new.link),
        ("VLAN", old.vlan, new.vlan),
        ("name", old.name, new.name),
    ]
    for title, was, now in pairs:
        if was != now:
            yield f"{title} {was or 'none'} → {now or 'none'}"


def _place(view: NicView) -> str:
    return f" on {view.network}" if view.network else ""


def _view(
    index: int,
    name: str,
    spec: NicSpec,
    networks: Mapping[str, Network],
    *,
    ips: tuple[str, ...],
    uuid: str = "",
    state: str = READY,
    message: str = "",
) -> NicView:
    network = networks.get(spec.network)
    return NicView(
        index=index,
        object=name,
        uuid=uuid,
        name=spec.name,
        network=network.called if network is not None else spec.network,
        network_uuid=(network.spec.uuid or network.metadata.uid) if network is not None else "",
        ips=ips,
        wanted=spec.ips,
        mac=spec.mac,
        mode=spec.mode,
        link=spec.link,
        vlan=spec.vlan,
        state=state,
        message=message,
    )
