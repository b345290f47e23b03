"""`lanloom host`: the unit that tells NetworkManager of changed profiles while no agent does."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import profiles_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanloom.hostunit import Systemd, Tree, UnitStatus

_root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    metavar="DIR",
    help="Root directory of the host. For another directory than /, nothing is started and systemctl is not run.",
)


@click.group(name="host")
def command() -> None:
    """Manage the unit that reloads NetworkManager profiles on a host.

    A systemd path unit watches /etc/NetworkManager/system-connections. It makes NetworkManager load every changed
    profile of Lanloom, even while no agent runs.

    \b
    Examples:
      lanloom host install
      lanloom host install --root /host     # in a privileged pod
      lanloom host status
    """


@command.command()
@_root_option
def install(root: Path) -> None:
    """Install, enable and start the unit, and print the changes. A repeated run changes nothing.

    \b
    Examples:
      sudo lanloom host install
      lanloom host install --root /host
    """
    from lanloom.hostunit import install as install_unit

    _change(root, install_unit, "The unit is installed already; nothing to do.")


@command.command()
@_root_option
def uninstall(root: Path) -> None:
    """Stop the unit and remove its files. Nothing else is removed.

    \b
    Example:
      sudo lanloom host uninstall
    """
    from lanloom.hostunit import uninstall as uninstall_unit

    _change(root, uninstall_unit, "The unit is not installed; nothing to do.")


@command.command()
@_root_option
@output_option
def status(root: Path, output: str) -> None:
    """Show whether the unit is installed, enabled and active. It changes nothing.

    \b
    Exit code: 0 if it is all of these, 1 if something is missing or differs.

    \b
    Example:
      lanloom host status --output json
    """
    from lanloom.hostunit import HostError, Systemctl, Tree
    from lanloom.hostunit import status as unit_status

    try:
        found = unit_status(Tree(root), Systemctl())
    except HostError as error:
        raise click.ClickException(str(error)) from None
    if output != "table":
        print_data(found, output)
    else:
        _show(found, "" if root == Path("/") else f" --root {root}")
    sys.exit(0 if found.well else 1)


@command.command()
@profiles_option(exists=True)
@click.option(
    "--memory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/run/lanloom-nm-reload"),
    show_default=True,
    help="Directory for the state of loaded profiles, valid until the next boot.",
)
def watch(profiles: Path, memory: Path) -> None:
    """Run the unit's task in the foreground until SIGTERM, for hosts without systemd.

    \b
    Example:
      lanloom host watch
    """
    from lanloom.hostunit import HostError
    from lanloom.node.errors import ProfileError
    from lanloom.runtime.process import first_of, run_process

    try:
        run_process(_watch(profiles, memory))
    except ExceptionGroup as errors:
        raise click.ClickException(str(first_of(errors, HostError, ProfileError))) from None


async def _watch(profiles: Path, memory: Path) -> None:
    from lanloom.hostunit import run_script, watch
    from lanloom.node.profiles import ProfileDirectory

    await watch(ProfileDirectory(profiles).changes(), lambda: run_script(profiles, memory))


def _change(root: Path, change: "Callable[[Tree, Systemd], tuple[str, ...]]", nothing: str) -> None:
    from lanloom.hostunit import HostError, Systemctl, Tree

    try:
        tree = Tree(root)
        changes = change(tree, Systemctl())
    except HostError as error:
        raise click.ClickException(str(error)) from None
    for line in changes or (nothing,):
        click.echo(line)
    if changes and not tree.own:
        click.echo(
            f"The host below {tree.root} loads the change at its next boot, or after `systemctl daemon-reload` there."
        )


def _show(found: "UnitStatus", option: str) -> None:
    for part in found.parts:
        click.echo(f"{part.state:<8} {part.path}")
    active = {
        True: ", active",
        False: ", not active",
        None: "; to see whether it is active, ask systemctl on the host",
    }
    click.echo(
        f"The unit is {'installed' if found.installed else 'not installed completely'} and "
        f"{'enabled' if found.enabled else 'not enabled'}{active[found.active]}."
    )
    if not found.well:
        click.echo(f"Run `lanloom host install{option}` as root to repair it.")
