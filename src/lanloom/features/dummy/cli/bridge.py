"""`lanloom dummy bridge`: the process that keeps one isolated bridge of a node.

Many run on each node, one for each isolated network, so it loads nothing that it does not need: no API client, no
D-Bus, no TLS.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.runtime.slimimports import without

with without("ssl"):  # imported if it is there, it takes 4 MB
    import asyncio  # noqa: F401
with without("rich", "greenlet"):
    import structlog  # noqa: F401

if TYPE_CHECKING:
    from lanloom.features.dummy.rules.hostbridge import Assignment

TERMINATION_LOG = Path("/dev/termination-log")
"""Where a kubelet reads why a container ended, unless the pod says otherwise."""


@click.command(name="bridge")
@click.option("--name", required=True, metavar="LINK", help="Name of the bridge.")
@click.option("--owner", required=True, metavar="UID", help="UID of its DummyClusterNetwork.")
@click.option(
    "--state",
    type=click.Choice(["present", "absent"]),
    required=True,
    help="Desired state of the bridge.",
)
@click.option(
    "--gateway",
    metavar="CIDR[,CIDR]",
    default="",
    help="Addresses of the bridge, if the network has gateways: one, or one of each IP version.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File that exists while the bridge is in the desired state.",
)
@click.option(
    "--termination-log",
    type=click.Path(dir_okay=False, path_type=Path),
    default=TERMINATION_LOG,
    show_default=True,
    help="File for the reason of a failure, if the file exists.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    name: str,
    owner: str,
    state: str,
    gateway: str,
    ready_file: Path,
    termination_log: Path,
    log_level: str,
) -> None:
    """Keep this node's bridge of an isolated network, or remove it, until SIGTERM.

    It runs in the pods of the network's DaemonSet. A bridge that is deleted or set down is there again within a second.
    With `absent` it is removed once it has no port any more; ready then means that it is gone. No bridge is touched
    that was not made for the owner, by Lanloom or by CNI's bridge plugin for pods that started first.

    Exit code: 0 after SIGTERM, which leaves the bridge as it is; 1 if a link that Lanloom did not make for the owner is
    in the way for 10 seconds, or ports keep a bridge that is to go for 60.

    Needs CAP_NET_ADMIN and the host's network.

    \b
    Example:
      lanloom dummy bridge --name dummy-br --owner 2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001 \\
        --state present --ready-file /run/ready
    """
    from lanloom.api.names import LINK_NAME_MAX
    from lanloom.features.dummy.agent.bridge import Obstructed
    from lanloom.features.dummy.rules.hostbridge import Assignment
    from lanloom.node.marks import is_owner
    from lanloom.runtime.logs import configure_logs
    from lanloom.runtime.process import first_of, run_process

    if not 0 < len(name.encode()) <= LINK_NAME_MAX:
        raise click.BadParameter(f"a link's name has 1 to {LINK_NAME_MAX} characters", param_hint="--name")
    if not is_owner(owner):
        raise click.BadParameter(
            f"{owner!r} is not a uid; a uid has at most 63 letters, digits and dashes", param_hint="--owner"
        )
    gateways = _gateways(gateway)
    configure_logs(log_level)
    present = state == "present"
    task = Assignment(bridge=name, owner=owner, state="present" if present else "absent", gateways=gateways)
    try:
        run_process(_keep(task, ready_file))
    except ExceptionGroup as errors:
        message = _reason(first_of(errors, Obstructed, OSError), ready_file)
        if termination_log.exists():
            termination_log.write_text(message)
        raise click.ClickException(message) from None


def _gateways(text: str) -> tuple[str, ...]:
    from ipaddress import ip_interface

    given = tuple(text.split(",")) if text else ()
    try:
        good = len({ip_interface(each).version for each in given}) == len(given)
    except ValueError:
        good = False
    if not good or any("%" in each or str(ip_interface(each)) != each for each in given):
        raise click.BadParameter(
            f"{text!r} is not an address such as 10.115.0.1/24, or one of each IP version with a comma",
            param_hint="--gateway",
        )
    return given


def _reason(error: Exception, ready_file: Path) -> str:
    """Return why the process ends, in a sentence."""
    if isinstance(error, OSError):
        return (
            f"can't write the file {ready_file}: {error.strerror}; its directory must exist and be writable"
        )
    return str(error)


async def _keep(task: "Assignment", ready_file: Path) -> None:
    from lanloom.features.dummy.agent.bridge import BridgeReconciler, ReadyFile
    from lanloom.node.host import open_links

    links = open_links(task.bridge)
    await BridgeReconciler(links, task, ReadyFile(ready_file).show).run()
