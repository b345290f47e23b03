"""One operation on a network: steps that are all made or none.

Everything is a value, so there is nothing to undo: the steps make copies, and who called gets the last one or an error.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec import Struct

from lanloom.features.ipam.rules.general import (
    AddTags,
    Connect,
    Disconnect,
    RemoveTags,
    Rename,
    SetMacPrefix,
    add_tags,
    connect,
    disconnect,
    remove_tags,
    rename,
    set_mac_prefix,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.shares import SetShares, set_shares
from lanloom.features.ipam.rules.subnets import (
    AddPool,
    AddReserved,
    AddSubnet,
    ModifyPool,
    ModifySubnet,
    Outcome,
    RemovePool,
    RemoveReserved,
    RemoveSubnet,
    add_pool,
    add_reserved,
    add_subnet,
    modify_pool,
    modify_subnet,
    remove_pool,
    remove_reserved,
    remove_subnet,
)

GeneralStep = Rename | SetMacPrefix | AddTags | RemoveTags | SetShares | Connect | Disconnect
SubnetStep = AddSubnet | ModifySubnet | RemoveSubnet
PoolStep = AddPool | ModifyPool | RemovePool
ReservedStep = AddReserved | RemoveReserved
Step = GeneralStep | SubnetStep | PoolStep | ReservedStep

_ORDER = (GeneralStep, SubnetStep, PoolStep, AddReserved, RemoveReserved)


class Change(Struct, frozen=True):
    """The result of an operation: the changed network, and notes for the user, in order."""

    network: Network
    notes: tuple[str, ...] = ()


def apply(network: Network, steps: Iterable[Step], ledger: Ledger, new_uuid: Callable[[], str]) -> Change:
    """Make the steps in the order given, each checked on what those before it made.

    `ledger` says who owns what in the network. Raises Malformed or Refused; nothing has changed then.
    """
    notes: list[str] = []
    for step in steps:
        network, more = _apply(network, step, ledger, new_uuid)
        notes.extend(more)
    return Change(network, tuple(notes))


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps in the order in which options of one command take effect, wherever they stand on the command line.

    What a network has apart from its subnets, then subnets, pools and reserved addresses (added before removed); within
    these as they were given. Only command lines order them: `apply` keeps the order.
    """
    given = list(steps)
    return tuple(step for kind in _ORDER for step in given if isinstance(step, kind))


def _apply(network: Network, step: Step, ledger: Ledger, new_uuid: Callable[[], str]) -> Outcome:
    match step:
        case AddSubnet():
            return add_subnet(network, step, ledger, new_uuid())
        case ModifySubnet():
            return modify_subnet(network, step, ledger)
        case RemoveSubnet():
            return remove_subnet(network, step, ledger)
        case AddPool():
            return add_pool(network, step, ledger)
        case ModifyPool():
            return modify_pool(network, step)
        case RemovePool():
            return remove_pool(network, step, ledger)
        case AddReserved():
            return add_reserved(network, step)
        case RemoveReserved():
            return remove_reserved(network, step)
        case _:
            return _apply_general(network, step), ()


def _apply_general(network: Network, step: GeneralStep) -> Network:
    match step:
        case Rename():
            return rename(network, step)
        case SetMacPrefix():
            return set_mac_prefix(network, step)
        case AddTags():
            return add_tags(network, step)
        case RemoveTags():
            return remove_tags(network, step)
        case SetShares():
            return set_shares(network, step)
        case Connect():
            return connect(network, step)
        case Disconnect():
            return disconnect(network, step)
        case _:
            assert_never(step)
