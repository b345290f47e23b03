"""Options that several commands share."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import ClusterOptions, completed_contexts

F = TypeVar("F", bound=Callable[..., Any])

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def cluster_options(function: F) -> F:
    """Return the options of kubectl that say which cluster to talk to, and as which user.

    The command gets them as `cluster`.
    """
    return _cluster_options(function, *_PLACE)


def cluster_scope_options(function: F) -> F:
    """`cluster_options` with `-A`: see `ClusterOptions.scope`."""
    return _cluster_options(function, *_PLACE, _SELECTION[0])


def cluster_list_options(function: F) -> F:
    """`cluster_options` with those of lists: see `ClusterOptions.narrowed`."""
    return _cluster_options(function, *_PLACE, *_SELECTION)


def _cluster_options(function: F, *options: Callable[[Any], Any]) -> F:
    @functools.wraps(function)
    def called(*words: Any, **values: Any) -> Any:
        own = {name: values.pop(name) for name in ClusterOptions.names() if name in values}
        return function(*words, cluster=ClusterOptions(**own), **values)

    decorated: Any = called
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _seconds(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Read a duration as kubectl's --request-timeout: a number of seconds, or numbers with units."""
    if given is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", given)
    if not (given.isdecimal() or (parts and "".join(map("".join, parts)) == given)):
        raise click.BadParameter(
            f"{given!r} is no duration; use a number of seconds, or one such as 500ms, 5s, 1m30s"
        )
    return float(given) if given.isdecimal() else sum(float(number) * _UNITS[unit] for number, unit in parts)


def _namespace(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    """Read a namespace, which kubectl accepts with its kind, as in ns/shop."""
    if not given:
        return None
    kind, slash, name = given.partition("/")
    name = name if slash and kind.lower() in ("ns", "namespace", "namespaces") else given
    if not _NAMESPACE.fullmatch(name):
        raise click.BadParameter(f"{given!r} can't be a namespace; use small letters, digits and dashes")
    return name


def _complete_contexts(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return completed_contexts(ctx, str(parameter.name), incomplete)


def _complete_namespaces(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from lanloom.api.core import NAMESPACES
    from lanloom.cli.cluster import completed_names

    return completed_names(ctx, incomplete, NAMESPACES)


def _complete_files(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the shell to complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_nodes(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the nodes of the cluster."""
    from lanloom.api.core import NODES
    from lanloom.cli.cluster import completed_names

    return completed_names(ctx, incomplete, NODES)


def kubeconfig_option(function: F) -> F:
    """`--kubeconfig` alone, for processes that run in a cluster, and for tools of one machine."""
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        shell_complete=_complete_files,
        help="Credentials of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.",
    )(function)


_PLACE = (
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        callback=_namespace,
        shell_complete=_complete_namespaces,
        help="Namespace of objects that name none. Default: that of the context.",
    ),
    kubeconfig_option,
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=_complete_contexts,
        help="Context of the kubeconfig to use.",
    ),
    click.option(
        "--cluster",
        "cluster_name",
        metavar="NAME",
        shell_complete=_complete_contexts,
        help="Cluster of the kubeconfig to use.",
    ),
    click.option(
        "--user", metavar="NAME", shell_complete=_complete_contexts, help="User of the kubeconfig to use."
    ),
    click.option("--as", "as_", metavar="NAME", help="User to act as."),
    click.option("--as-uid", metavar="UID", help="UID to act as."),
    click.option(
        "--as-group", "as_groups", multiple=True, metavar="NAME", help="Group to act as. Can be repeated."
    ),
    click.option(
        "--request-timeout",
        metavar="DURATION",
        callback=_seconds,
        help="Time limit of a request, such as 5s or 1m; 0: none. Default: 30s.",
    ),
)

_SELECTION = (
    click.option("-A", "--all-namespaces", is_flag=True, help="List the objects of all namespaces."),
    click.option(
        "-l", "--selector", metavar="LABELS", help="List objects with these labels, as in a=b,c!=d."
    ),
    click.option(
        "--field-selector",
        metavar="FIELDS",
        help="List objects with these fields, as in metadata.name=blue, as far as the server selects by them.",
    ),
)


AGENT_ADDRESS = "127.0.0.1:9810"
"""Where an agent reports its state, unless configured otherwise."""

CNI_SOCKET = "/run/lanloom/cni.sock"
"""Where an agent answers the CNI plugin, unless configured otherwise."""


def profiles_option(*, exists: bool = False, readable: bool = True) -> Callable[[F], F]:
    """`--profiles`: where the host's profiles are, which NetworkManager calls system connections."""
    return click.option(
        "--profiles",
        type=click.Path(exists=exists, file_okay=False, readable=readable, path_type=Path),
        default=Path("/etc/NetworkManager/system-connections"),
        show_default=True,
        help="The host's directory of NetworkManager profiles, as this process sees it.",
    )


def records_options(*, checked: bool = True) -> Callable[[F], F]:
    """`--state` and `--runtime`: the agent's own directories. Without `checked`, the command itself looks at them."""
    type_ = click.Path(file_okay=not checked, readable=checked, path_type=Path)
    state = click.option(
        "--state",
        type=type_,
        default=Path("/var/lib/lanloom"),
        show_default=True,
        help="Directory for the agent's state that survives a reboot.",
    )
    runtime = click.option(
        "--runtime",
        type=type_,
        default=Path("/run/lanloom"),
        show_default=True,
        help="Directory for the agent's state that is invalid after a reboot.",
    )
    return lambda function: state(runtime(function))


def metrics_option(*default: str) -> Callable[[F], F]:
    """`--metrics-address`: where the process shows how it fares."""
    return click.option(
        "--metrics-address",
        multiple=True,
        metavar="HOST:PORT",
        default=default,
        show_default=bool(default),
        help="Address of /metrics, /healthz and /readyz. Can be repeated; empty: none.",
    )


def log_level_option(default: str) -> Callable[[F], F]:
    """`--log-level`: what a process logs at least."""
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default=default,
        show_default=True,
    )


def dry_run_option(function: F) -> F:
    """`--dry-run`: preview a change."""
    return click.option("--dry-run", is_flag=True, help="Show what would change without changing anything.")(
        function
    )


def setting_option(name: str, *others: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option of a manager that the environment may give, too: as LANLOOM_ and the option's name."""
    variable = f"LANLOOM_{name.partition('/')[0].removeprefix('--').replace('-', '_').upper()}"
    shown: dict[str, Any] = {"envvar": variable, "show_envvar": True, "show_default": True}
    return click.option(name, *others, **shown | settings)


def once_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare a text option that may be given once: of two lists, click would silently drop the first.

    The command gets None if it is not given.
    """
    return click.option(*names, multiple=True, callback=only_value, **settings)


def only_value(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """Return the only value. Raises BadParameter."""
    if len(given) > 1:
        raise click.BadParameter("it is given twice; give it once", ctx=ctx, param=parameter)
    return given[0] if given else None
