"""What the commands of `lanloom instance` share: how they name instances, change them, and tell what they did."""

import functools
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.cluster import completion, dry_run_option, run, tell_differences, tell_notes
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.api.meta import Key
    from lanloom.app.ipam.instancechange import Done, How
    from lanloom.app.ipam.instanceplan import Insistence
    from lanloom.ipam.state import State
    from lanloom.kube.ports import Client

F = TypeVar("F", bound=Callable[..., Any])

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _names(state: "State", ctx: click.Context) -> list[str]:
    from lanloom.app.ipam.instances import instances

    return [item.name for item in instances(state, ctx.params.get("namespace") or "default")]


complete_instances = completion(_names)
"""Completes the names of a namespace's instances."""


def namespace_option(function: F) -> F:
    """`--namespace`: where instances are looked for."""
    return click.option(
        "-n",
        "--namespace",
        default="default",
        show_default=True,
        callback=_namespace,
        help="The namespace of the instances.",
    )(function)


def instance_argument(function: F) -> F:
    """INSTANCE: which one."""
    return click.argument("instance", shell_complete=complete_instances)(function)


def instances_argument(function: F) -> F:
    """[INSTANCE]…: which ones, or all of the namespace."""
    return click.argument("instances", nargs=-1, metavar="[INSTANCE]...", shell_complete=complete_instances)(
        function
    )


def force_option(function: F) -> F:
    """`--force`, and its old name."""
    return click.option(
        "--force",
        "--no-conflicts-check",
        "force",
        is_flag=True,
        help="Allow addresses that are externally reserved, but none that another NIC owns.",
    )(function)


@dataclass(frozen=True)
class Changing:
    """An instance that is to be changed, and how."""

    instance: str
    namespace: str
    dry_run: bool
    wait: bool
    output: str
    kubeconfig: str | None

    def run(self, work: "Callable[[Client, Key, How], Awaitable[Done]]") -> None:
        """Does the work, waiting for addresses, and tells what changed or would."""
        from lanloom.api.meta import Key
        from lanloom.app.ipam.instancechange import How
        from lanloom.app.ipam.instances import check_instance

        with refusals():
            check_instance(self.instance)
        key = Key(self.namespace, self.instance)
        with _progress(self.instance) as tell:
            how = How(dry_run=self.dry_run, wait=self.wait, tell=tell)
            done = run(self.kubeconfig, lambda client: work(client, key, how))
        self._tell(done)

    def _tell(self, done: "Done") -> None:
        from lanloom.app.ipam.instanceviews import differences, plain

        tell_notes(done.notes)
        if self.output != "table":
            nics = [plain(view) for view in done.after]
            print_data({"name": self.instance, "namespace": self.namespace, "nics": nics}, self.output)
            return
        found = differences(done.before, done.after)
        tell_differences(found, f"Instance {self.instance} is as it was.", dry_run=self.dry_run)


def changing_options(function: F) -> F:
    """The options of a change; the command gets them, with INSTANCE, as one argument `changing`."""

    @functools.wraps(function)
    def called(*words: Any, no_wait: bool, **options: Any) -> Any:
        names = ("instance", "namespace", "dry_run", "output", "kubeconfig")
        own = {name: options.pop(name) for name in names}
        return function(*words, changing=Changing(wait=not no_wait, **own), **options)

    no_wait_option = click.option(
        "--no-wait", is_flag=True, help="Do not wait until addresses are given, or taken back."
    )
    plain: Any = output_option(kubeconfig_option(called))
    decorated: F = namespace_option(dry_run_option(no_wait_option(plain)))
    return decorated


def insistence(force: bool) -> "Insistence":
    """What a change is planned with."""
    import secrets
    from random import Random

    from lanloom.app.ipam.instanceplan import Insistence

    return Insistence(rng=Random(secrets.randbits(128)), force=force)


def _namespace(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    if len(given) > 63 or not _NAMESPACE.fullmatch(given):
        raise click.BadParameter(
            f"{given!r} can't be a namespace; use small letters, digits and dashes", ctx=ctx, param=parameter
        )
    return given


@contextmanager
def _progress(instance: str) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal what is waited for."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from lanloom.cli.waiting import waiting

    with waiting(instance) as progress:
        yield progress
