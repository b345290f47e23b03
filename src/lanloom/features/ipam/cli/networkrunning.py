"""Change networks and report what changed: the part that the commands of `lanloom network` share."""

import functools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lanloom.cli.cluster import refusals, report_notes, run
from lanloom.cli.listing import long_output_option, print_data
from lanloom.cli.options import dry_run_option, kubeconfig_option
from lanloom.features.ipam.cli.cluster import check_idents, report_differences

if TYPE_CHECKING:
    from lanloom.features.ipam.commands.networks import Judge, Result
    from lanloom.features.ipam.rules.change import Step
    from lanloom.features.ipam.rules.model import Network
    from lanloom.kube.ports import Client

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ChangeOptions:
    """Options of a change of a network."""

    dry_run: bool
    output: str
    kubeconfig: str | None

    def modify(
        self, network: str, steps: "Callable[[Network], Iterable[Step]]", *, judge: "Judge | None" = None
    ) -> None:
        """Changes a network and tells what changed."""
        from random import Random

        from lanloom.features.ipam.commands.networks import Edit
        from lanloom.features.ipam.commands.networks import modify as modify_network

        with refusals():
            check_idents([network])
        edit = Edit(ident=network, steps=steps, new_uuid=new_uuid, judge=judge, dry_run=self.dry_run)
        self.run(lambda client: modify_network(client, edit, Random()))

    def run(self, work: "Callable[[Client], Awaitable[Result]]") -> None:
        """Does the work, whose input was read before, and tells what changed or would, and notes as warnings."""
        from lanloom.features.ipam.cli.grammar.difference import differences

        done = run(self.kubeconfig, work, read=True)
        report_notes(done.notes)
        if self.output != "table":
            print_data(_plain(done, dry_run=self.dry_run), self.output)
            return
        unchanged = f"Network {done.after.name} is as it was." if done.after is not None else ""
        report_differences(differences(done.before, done.after), unchanged, dry_run=self.dry_run)


def change_options(function: F) -> F:
    """The options of a change; the command gets them as one argument `change`."""

    @functools.wraps(function)
    def called(*words: Any, dry_run: bool, output: str, kubeconfig: str | None, **options: Any) -> Any:
        return function(*words, change=ChangeOptions(dry_run, output, kubeconfig), **options)

    plain: Any = long_output_option(kubeconfig_option(called))
    decorated: F = dry_run_option(plain)
    return decorated


def new_uuid() -> str:
    """The UUID of a new subnet."""
    from uuid import uuid4

    return str(uuid4())


def _plain(done: "Result", *, dry_run: bool) -> dict[str, Any]:
    """What changed, and the network as an object's spec describes it; null where there is none any more."""
    from msgspec import to_builtins

    from lanloom.features.ipam.cli.grammar.difference import differences
    from lanloom.features.ipam.wire import spec_of

    one = done.after or done.before
    changes = [{"sign": item.sign, "text": item.text} for item in differences(done.before, done.after)]
    spec = to_builtins(spec_of(done.after)) if done.after is not None else None
    return {
        "name": one.name if one is not None else None,
        "dry_run": dry_run,
        "changes": changes,
        "spec": spec,
    }
