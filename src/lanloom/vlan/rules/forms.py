"""Which form of each cluster network a node carries: the present one, or still the last one that it had.

A network stays at its last form while its roll-out has not released the node, and where its present form was rolled
back. A network that is gone is never held: what is deleted goes.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.node.vlanids import render
from lanloom.vlan.rules.network import Interface, NodeNetwork

Reason = Literal["", "Held", "RolledBack"]
"""Why a node does not carry the present form; empty where it does, or where that is the same."""


class Form(Struct, frozen=True):
    """A cluster network on a node, and the `revision` (see `rules.rollout`) of the configuration that it comes from."""

    network: NodeNetwork
    revision: str = ""

    @property
    def name(self) -> str:
        """The cluster network."""
        return self.network.cluster_network

    @property
    def digest(self) -> str:
        """What tells this form from another of the same network, whatever the revision."""
        return self.network.digest


class Choice(Struct, frozen=True, kw_only=True):
    """What the node carries of one network instead of `present`, if `reason` says so. None: nothing at all."""

    present: Form
    carried: Form | None
    reason: Reason = ""


def by_name(forms: Iterable[Form]) -> dict[str, Form]:
    """The forms by their cluster networks."""
    return {form.name: form for form in forms}


def choose(
    present: Iterable[Form],
    carried: Mapping[str, Form],
    *,
    released: Container[str],
    rejected: Mapping[str, str],
    unknown: Container[str] = (),
) -> tuple[Choice, ...]:
    """One choice for each network that should be there now.

    `carried` are the forms that the node has, `released` the networks whose present form the node may take up,
    `rejected` the digests of forms that were rolled back. `unknown` are networks that the node has in a form that
    nobody remembers: they take the present one, because nothing else can be kept up.
    """
    return tuple(_choice(form, carried, released, rejected, unknown) for form in present)


def _choice(
    form: Form,
    carried: Mapping[str, Form],
    released: Container[str],
    rejected: Mapping[str, str],
    unknown: Container[str],
) -> Choice:
    reason: Reason = ""
    if form.name in rejected and rejected[form.name] == form.digest:
        reason = "RolledBack"
    elif form.name not in released and form.name not in unknown:
        reason = "Held"
    last = carried.get(form.name)
    unchanged = reason == "Held" and last is not None and last.digest == form.digest
    if not reason or unchanged:  # a change that is none on this node needs no turn in the roll-out
        return Choice(present=form, carried=form)
    return Choice(present=form, carried=last, reason=reason)


def explanation(choice: Choice) -> str:
    """What the user should know of a choice with a reason."""
    name = choice.present.name
    if choice.reason == "Held":
        carries = "its last configuration" if choice.carried else "nothing of it"
        return f"the roll-out of {name} has not reached this node yet, which carries {carries} until then"
    last = choice.carried.network if choice.carried else None
    return (
        "the node could not reach the API server after a change, which was undone: "
        f"{difference(last, choice.present.network)}; correct it, or delete this VlanStatus to have it tried again"
    )


def difference(old: NodeNetwork | None, new: NodeNetwork) -> str:
    """The change from one form of a network to another, in a few words."""
    if old is None:
        return f"the cluster network {new.cluster_network} over {', '.join(new.nics) or 'no NIC'}"
    return "; ".join(_differences(old, new)) or "its description"


def _differences(old: NodeNetwork, new: NodeNetwork) -> Iterator[str]:
    if old.nics != new.nics:
        yield f"NICs {', '.join(old.nics) or 'none'} to {', '.join(new.nics) or 'none'}"
    if old.mode != new.mode:
        yield f"bond mode {old.mode} to {new.mode}"
    if old.mtu != new.mtu:
        yield f"MTU {old.mtu} to {new.mtu}"
    before, after = ({item.vid: item for item in network.interfaces} for network in (old, new))
    yield from (f"VLAN {vid}: {_address(after[vid])}" for vid in sorted(after.keys() - before.keys()))
    yield from (f"VLAN {vid} removed" for vid in sorted(before.keys() - after.keys()))
    yield from (
        f"VLAN {vid}: {_address(before[vid])} to {_address(after[vid])}"
        for vid in sorted(before.keys() & after.keys())
        if before[vid].content != after[vid].content
    )
    if old.uplink_ids != new.uplink_ids:
        yield f"VLAN ids of the uplink {render(old.uplink_ids) or 'none'} to {render(new.uplink_ids) or 'none'}"


def _address(item: Interface) -> str:
    return item.address or f"an address by {item.mode.upper()}"
