"""What the commands of `lanloom network` share: how they name networks, change them, and tell what they did."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.cluster import completion, read_cluster, run, tell_differences, tell_notes
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.networks import Done, Judge
    from lanloom.ipam.rules.change import Step
    from lanloom.ipam.rules.model import Network
    from lanloom.ipam.state import State

F = TypeVar("F", bound=Callable[..., Any])


def _names(state: "State", _ctx: click.Context) -> list[str]:
    return sorted(item.spec.name or item.metadata.name for item in state.networks)


complete_networks = completion(_names)
"""Completes the names of networks."""


def network_argument(function: F) -> F:
    """NETWORK: which one."""
    return click.argument("network", shell_complete=complete_networks)(function)


def networks_argument(function: F) -> F:
    """[NETWORK]…: which ones, or all of them."""
    return click.argument("networks", nargs=-1, metavar="[NETWORK]...", shell_complete=complete_networks)(
        function
    )


def read(kubeconfig: str | None, networks: Sequence[str] = ()) -> "State":
    """The cluster's networks and NICs; `networks` are identifiers that must be well formed. Ends where that fails."""
    with refusals():
        check_idents(networks)
    return read_cluster(kubeconfig)


def check_idents(networks: Sequence[str]) -> None:
    """Raises Malformed for what can be no network's name or UUID."""
    from lanloom.ipam.rules.addresses import shown
    from lanloom.ipam.rules.errors import Malformed
    from lanloom.ipam.rules.names import is_name, is_uuid

    for ident in networks:
        if not is_name(ident) and not is_uuid(ident):
            raise Malformed(f"{shown(ident)} is no network; name one by its name or UUID")


def change(
    kubeconfig: str | None,
    network: str,
    steps: "Callable[[Network], Iterable[Step]]",
    *,
    judge: "Judge | None" = None,
    dry_run: bool,
) -> None:
    """Changes a network and tells what changed."""
    from random import Random

    from lanloom.app.ipam.networks import Edit, modify

    with refusals():
        check_idents([network])
    edit = Edit(ident=network, steps=steps, new_uuid=new_uuid, judge=judge, dry_run=dry_run)
    tell(run(kubeconfig, lambda client: modify(client, edit, Random()), read=True), dry_run=dry_run)


def new_uuid() -> str:
    """The UUID of a new subnet."""
    from uuid import uuid4

    return str(uuid4())


def tell(done: "Done", *, dry_run: bool) -> None:
    """Prints what changed or would, and notes as warnings."""
    from lanloom.ipam.rules.difference import differences

    tell_notes(done.notes)
    unchanged = f"Network {done.after.name} is as it was." if done.after is not None else ""
    tell_differences(differences(done.before, done.after), unchanged, dry_run=dry_run)
