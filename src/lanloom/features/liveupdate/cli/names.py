"""Arguments and completion that the commands of machines share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import completed, options_of

if TYPE_CHECKING:
    from lanloom.api.meta import Key
    from lanloom.kube.ports import Client

F = TypeVar("F", bound=Callable[..., Any])


def machine_argument(function: F) -> F:
    """VM: which machine."""
    return click.argument("vm", metavar="[NAMESPACE/]VM", shell_complete=_complete_machines)(function)


def key_of(name: str, namespace: str) -> "Key":
    """Return the key of `namespace/name`, or of a name in that namespace. Raises BadParameter."""
    from lanloom.api.meta import Key
    from lanloom.api.multus import is_name

    place, slash, title = name.partition("/")
    key = Key(place, title) if slash else Key(namespace, name)
    for text in key:
        if not is_name(text):
            raise click.BadParameter(
                f"{name!r} in namespace {namespace!r} can't name an object; use NAME or NAMESPACE/NAME with small "
                "letters, digits, dashes and dots"
            )
    return key


def _complete_machines(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of the namespace's machines; those of all namespaces after a slash."""
    namespace = options_of(ctx).quiet_config.namespace

    async def names(client: "Client") -> list[str]:
        from lanloom.api.kubevirt import VIRTUAL_MACHINES

        found = [item.metadata.key for item in (await client.list(VIRTUAL_MACHINES)).items]
        own = [key.name for key in found if key.namespace == namespace]
        return sorted(map(str, found)) if "/" in incomplete or not own else sorted(own)

    return completed(ctx, incomplete, names)


def complete_nics(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the NICs of the machine that was named, but not one on the pod network."""

    async def names(client: "Client") -> list[str]:
        from lanloom.api.kubevirt import VIRTUAL_MACHINES

        key = key_of(ctx.params.get("vm") or "", options_of(ctx).quiet_config.namespace)
        template = (await client.get(VIRTUAL_MACHINES, key.name, key.namespace)).spec.template
        return [item.name for item in template.spec.networks if item.multus is not None] if template else []

    return completed(ctx, incomplete, names) if ctx.params.get("vm") else []


def complete_nads(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete NADs: by name those of the machine's namespace, and all as `namespace/name`."""

    async def names(client: "Client") -> list[str]:
        from lanloom.api.multus import NADS

        key = key_of(ctx.params.get("vm") or "x", options_of(ctx).quiet_config.namespace)
        found = [item.metadata.key for item in (await client.list(NADS)).items]
        own = [item.name for item in found if item.namespace == key.namespace]
        return sorted((*own, *map(str, found)))

    return completed(ctx, incomplete, names)
