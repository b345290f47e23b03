"""Commands and the cluster: connect, complete names, and end with one line and a meaningful exit status."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from lanloom.runtime.slimimports import uncollected
from lanloom.text import one_line

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.kube.config import ClusterConfig
    from lanloom.kube.http import HttpClient, Observer
    from lanloom.kube.ports import Client, Reader, Watcher

T = TypeVar("T")

COMPLETION_SECONDS = 2.0
"""Time limit for the API server when a shell completes a name."""


class MalformedInput(click.ClickException):
    """Input that can never be valid. Another refusal is a plain ClickException with exit status 1."""

    exit_code = 2


@contextmanager
def refusals(*, reading: bool = False) -> Iterator[None]:
    """End the command with the message of a Refusal or KubeError.

    With `reading`, malformed data is in the cluster, not in the input.
    """
    from lanloom.kube.errors import KubeError, Unreachable
    from lanloom.refusals import Malformed, Refusal

    try:
        yield
    except (Refusal, KubeError) as error:
        wrong_input = isinstance(error, Malformed) and not reading
        away = "; check that the API server runs, and that the kubeconfig names it"
        text = f"{error}{away if isinstance(error, Unreachable) and error.is_away else ''}"
        raise (MalformedInput if wrong_input else click.ClickException)(text) from None


class ClusterOptions(Struct, frozen=True, dict=True):
    """Which cluster a command talks to, as which user, and where in it, as kubectl's options say it.

    What they leave open is in the kubeconfig, which is read when it is needed.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster_name: str | None = None
    user: str | None = None
    as_: str | None = None
    as_uid: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    selector: str | None = None
    field_selector: str | None = None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options, which are those of the fields."""
        return cls.__struct_fields__

    @cached_property
    def config(self) -> "ClusterConfig":
        """The configuration in force, after its notes are printed. Raises ConfigError."""
        report_notes(self.quiet_config.notes)
        return self.quiet_config

    @cached_property
    def quiet_config(self) -> "ClusterConfig":
        """The configuration in force. Raises ConfigError."""
        with uncollected():
            from lanloom.kube.kubeconfigfields import Overrides
            from lanloom.kube.loading import load

        overrides = Overrides(
            context=self.context or "",
            cluster=self.cluster_name or "",
            user=self.user or "",
            as_=self.as_ or "",
            as_uid=self.as_uid or "",
            as_groups=self.as_groups,
            namespace=self.namespace or "",
            timeout=self.request_timeout,
        )
        return load(self.kubeconfig, overrides)

    @property
    def place(self) -> str:
        """The namespace of objects that name none. Ends the command where no configuration says it."""
        if self.namespace:
            return self.namespace
        with refusals():
            return self.config.namespace

    @property
    def scope(self) -> str:
        """The namespace whose objects a list shows; empty for those of all namespaces."""
        return "" if self.all_namespaces else self.place

    def narrowed(self, client: "Watcher", resource: "Resource[Any]") -> "Reader":
        """Return a reader for a list of a kind: in `scope`, and of what the selectors choose."""
        from lanloom.kube.scoped import Scoped

        return self.selected(Scoped(client, self.scope) if self.scope else client, resource)

    def selected(self, reader: "Reader", resource: "Resource[Any]") -> "Reader":
        """Return a reader that lists what the selectors choose of a kind."""
        from lanloom.kube.scoped import Selected

        if not (self.selector or self.field_selector):
            return reader
        return Selected(reader, resource, self.selector or "", self.field_selector or "")


def options_of(ctx: click.Context) -> ClusterOptions:
    """Return the options of a command whose line is being completed."""
    given = {name: ctx.params[name] for name in ClusterOptions.names() if ctx.params.get(name) is not None}
    return ClusterOptions(**given)


def connect(kubeconfig: str | None, observe: "Observer | None" = None, *, logs: bool = False) -> "HttpClient":
    """Return the client of a process for the cluster that `kubeconfig`, or the environment, names. Raises ConfigError.

    With `logs` the log says what of the kubeconfig is ignored, and when the API server goes away and is back: that is
    for processes that stay.
    """
    from lanloom.kube.http import HttpClient

    chosen = ClusterOptions(kubeconfig)
    if not logs:
        return HttpClient(chosen.config, observe=observe)

    import structlog

    from lanloom.kube.outage import Outage

    config = chosen.quiet_config
    for note in config.notes:
        structlog.get_logger(__name__).warning("kubeconfig-ignored", message=note)
    return HttpClient(config, observe=observe, outage=Outage(config.server))


def run(
    cluster: ClusterOptions,
    work: "Callable[[HttpClient], Awaitable[T]]",
    *,
    read: bool = False,
    dry_run: bool = False,
    warn: "Callable[[str], None] | None" = None,
) -> T:
    """Run `work` on the cluster and return its result. End the command if it fails.

    `read` says that the command's input was validated before, so malformed data can only be in the cluster. With
    `dry_run`, the server judges what `work` writes, and stores nothing. What the server warns of is printed, unless
    `warn` takes it.
    """
    import asyncio

    from lanloom.kube.errors import ApiError, KubeError
    from lanloom.kube.firstcontact import explain
    from lanloom.kube.http import HttpClient

    async def connected() -> T:
        async with HttpClient(cluster.config, dry_run=dry_run, warn=warn or warnings()) as client:
            try:
                return await work(client)
            except ApiError as error:
                narrower = "name a namespace with -n instead of -A" if cluster.all_namespaces else ""
                text = await explain(client, error, narrower=narrower)
                raise (KubeError(text) if text != str(error) else error) from None

    with refusals(reading=read):
        return asyncio.run(connected())


def completed(
    ctx: click.Context,
    incomplete: str,
    names: "Callable[[Client], Awaitable[Iterable[str]]]",
    *,
    filtered: bool = False,
) -> list[CompletionItem]:
    """Return the cluster's names that begin with `incomplete`; none if it does not answer in time.

    `filtered` names are offered as they are. No password is asked for meanwhile.
    """
    import asyncio

    from lanloom.kube.errors import KubeError
    from lanloom.kube.http import HttpClient

    async def read() -> "Iterable[str]":
        config = options_of(ctx).quiet_config.without_terminal()
        async with asyncio.timeout(COMPLETION_SECONDS), HttpClient(config) as client:
            return await names(client)

    try:
        found = asyncio.run(read())
    except (KubeError, OSError, TimeoutError):
        return []
    return [CompletionItem(name) for name in found if filtered or name.startswith(incomplete)]


def completed_names(ctx: click.Context, incomplete: str, resource: "Resource[Any]") -> list[CompletionItem]:
    """Complete the names of a kind whose objects are in no namespace."""

    async def read(client: "Client") -> list[str]:
        return sorted(item.metadata.name for item in (await client.list(resource)).items)

    return completed(ctx, incomplete, read)


def completed_contexts(ctx: click.Context, option: str, incomplete: str) -> list[CompletionItem]:
    """Complete the contexts, clusters or users of the kubeconfig, without asking a cluster."""
    from lanloom.kube.errors import ConfigError
    from lanloom.kube.loading import read_files

    try:
        merged = read_files(ctx.params.get("kubeconfig"))
    except ConfigError:
        return []
    names = {"context": [*merged.contexts], "cluster_name": [*merged.clusters], "user": [*merged.users]}
    return [CompletionItem(name) for name in sorted(names[option]) if name.startswith(incomplete)]


def warnings() -> Callable[[str], None]:
    """Return a function that prints what a server warns of on standard error, each text once, as kubectl does."""
    seen: set[str] = set()

    def report(text: str) -> None:
        if text not in seen:
            click.echo(f"Warning: {one_line(text)}", err=True)
        seen.add(text)

    return report


def report_notes(notes: Iterable[str]) -> None:
    """Print what the user needs to know besides the result on standard error."""
    for note in notes:
        click.echo(f"Note: {note}", err=True)
