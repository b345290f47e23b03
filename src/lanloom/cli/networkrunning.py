"""What the commands of `lanloom network` share: how they name networks, change them, and tell what they did."""

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.cluster import completion, dry_run_option, read_cluster, run, tell_differences, tell_notes
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.networks import Done, Judge
    from lanloom.ipam.rules.change import Step
    from lanloom.ipam.rules.model import Network
    from lanloom.ipam.state import State
    from lanloom.kube.ports import Client

F = TypeVar("F", bound=Callable[..., Any])


def _names(state: "State", _ctx: click.Context) -> list[str]:
    return sorted(item.called for item in state.networks)


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


@dataclass(frozen=True)
class Changing:
    """How networks are changed, and how that is told."""

    dry_run: bool
    output: str
    kubeconfig: str | None

    def change(
        self, network: str, steps: "Callable[[Network], Iterable[Step]]", *, judge: "Judge | None" = None
    ) -> None:
        """Changes a network and tells what changed."""
        from random import Random

        from lanloom.app.ipam.networks import Edit, modify

        with refusals():
            check_idents([network])
        edit = Edit(ident=network, steps=steps, new_uuid=new_uuid, judge=judge, dry_run=self.dry_run)
        self.run(lambda client: modify(client, edit, Random()))

    def run(self, work: "Callable[[Client], Awaitable[Done]]") -> None:
        """Does the work, whose input was read before, and tells what changed or would, and notes as warnings."""
        from lanloom.ipam.rules.difference import differences

        done = run(self.kubeconfig, work, read=True)
        tell_notes(done.notes)
        if self.output != "table":
            print_data(_plain(done, dry_run=self.dry_run), self.output)
            return
        unchanged = f"Network {done.after.name} is as it was." if done.after is not None else ""
        tell_differences(differences(done.before, done.after), unchanged, dry_run=self.dry_run)


def changing_options(function: F) -> F:
    """The options of a change; the command gets them as one argument `changing`."""

    @functools.wraps(function)
    def called(*words: Any, dry_run: bool, output: str, kubeconfig: str | None, **options: Any) -> Any:
        return function(*words, changing=Changing(dry_run, output, kubeconfig), **options)

    plain: Any = output_option(kubeconfig_option(called))
    decorated: F = dry_run_option(plain)
    return decorated


def new_uuid() -> str:
    """The UUID of a new subnet."""
    from uuid import uuid4

    return str(uuid4())


def _plain(done: "Done", *, dry_run: bool) -> dict[str, Any]:
    """What changed, and the network as an object's spec describes it; null where there is none any more."""
    from msgspec import to_builtins

    from lanloom.ipam.rules.difference import differences
    from lanloom.ipam.wire import spec_of

    one = done.after or done.before
    changes = [{"sign": item.sign, "text": item.text} for item in differences(done.before, done.after)]
    spec = to_builtins(spec_of(done.after)) if done.after is not None else None
    return {
        "name": one.name if one is not None else None,
        "dry_run": dry_run,
        "changes": changes,
        "spec": spec,
    }
