"""`lanloom ganeti`: moving a Ganeti cluster's networks to the form with subnets, and into Lanloom."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import dry_run_option
from lanloom.cli.ganetienv import env
from lanloom.cli.ganetiimport import import_
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.ganeticonvert import Converted, Direction

_paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@click.group(name="ganeti")
def command() -> None:
    """Move a Ganeti cluster's networks to the form with subnets, and into Lanloom.

    Upgrade and downgrade rewrite a cluster's config.data and the KVM runtime files of its nodes. Stop Ganeti's daemons
    on every node before: they keep the configuration in memory and would write it again. No release of Ganeti reads the
    form with subnets, so downgrade before you start them. An import needs no upgrade and only reads.

    \b
    Examples:
      lanloom ganeti verify /var/lib/ganeti/config.data
      lanloom ganeti upgrade --dry-run /var/lib/ganeti/config.data
      lanloom ganeti upgrade /run/ganeti/kvm-hypervisor/conf
      lanloom ganeti import /var/lib/ganeti/config.data --namespace ganeti
      lanloom ganeti env inst1.example.com --output shell
    """


@command.command()
@_paths_argument
@dry_run_option
def upgrade(paths: tuple[Path, ...], dry_run: bool) -> None:
    """Rewrite files of Ganeti's so that networks have subnets and pools, and NICs a list of addresses.

    A PATH is a config.data, a KVM runtime file, or a directory, of which the files *.runtime are taken. Each network
    gets one subnet with one pool over all of it, and its IPv6 network becomes a second subnet. Reservations are counted
    anew from the NICs; what was wrong is told. Files that have this form already are left alone.

    Nothing is written before every file was read and judged. A file that is rewritten keeps owner and mode; the old one
    stays beside it as FILE.bak-TIME. No release of Ganeti reads the new form: downgrade before you start it again.

    Exit code: 0 if it is done, 1 if a file can't be written, 2 if one can't be read as a file of Ganeti's.

    \b
    Examples:
      lanloom ganeti upgrade --dry-run config.data
      lanloom ganeti upgrade /var/lib/ganeti/config.data /run/ganeti/kvm-hypervisor/conf
    """
    _convert(paths, "upgrade", dry_run)


@command.command()
@_paths_argument
@dry_run_option
def downgrade(paths: tuple[Path, ...], dry_run: bool) -> None:
    """Rewrite files of Ganeti's to the form that Ganeti itself reads.

    That works for what this form can say: an IPv4 subnet with one pool over all of it, an IPv6 subnet without a pool,
    and one address for each NIC. Whatever it can't say is named, and nothing is written. An upgrade and a downgrade
    together give back the file as it was, byte for byte, if its reservations were right.

    Exit code: 0 if it is done, 1 if something can't be said or written, 2 if a file can't be read.

    \b
    Examples:
      lanloom ganeti downgrade --dry-run config.data
      lanloom ganeti downgrade /var/lib/ganeti/config.data /run/ganeti/kvm-hypervisor/conf
    """
    _convert(paths, "downgrade", dry_run)


@command.command()
@_paths_argument
def verify(paths: tuple[Path, ...]) -> None:
    """Check networks and NICs in files of Ganeti's, in either form. Changes nothing.

    Exit code: 0 if all is well, 1 if something is wrong, 2 if a file can't be read as one of Ganeti's.

    \b
    Examples:
      lanloom ganeti verify /var/lib/ganeti/config.data
      lanloom ganeti verify /run/ganeti/kvm-hypervisor/conf
    """
    from lanloom.app.ipam.ganeticonvert import verify as verify_files

    with refusals():
        found = verify_files(paths)
    if not found:
        click.echo("there are no files *.runtime: nothing to check", err=True)
    for path, violations in found.items():
        for violation in violations:
            click.echo(f"{path}: {violation}")
        if not violations:
            click.echo(f"{path}: all is well", err=True)
    sys.exit(1 if any(found.values()) else 0)


command.add_command(env)
command.add_command(import_)


def _convert(paths: tuple[Path, ...], direction: "Direction", dry_run: bool) -> None:
    from datetime import UTC, datetime

    from lanloom.app.ipam.ganeticonvert import carry_out, plan
    from lanloom.ipam.rules.errors import Refused

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with refusals():
        files = plan(paths, direction)
        if not files:
            click.echo("there are no files *.runtime: nothing to do", err=True)
        for done, planned in enumerate(files):
            try:
                _tell(carry_out(planned, stamp, dry_run=dry_run), direction)
            except Refused as error:
                left = f"; {done} of {len(files)} files are done, the others are as before: run it again"
                raise Refused(f"{error}{left}" if done else str(error)) from None


def _tell(done: "Converted", direction: "Direction") -> None:
    for step in done.change.steps if done.backup is None else ():
        click.echo(f"{done.path}: {step}")
    for note in done.change.notes:
        click.echo(f"{done.path}: {note}", err=True)
    if not done.differs:
        click.echo(f"{done.path}: nothing to do")
        return
    what = f"{_count(done.change.networks, 'network')} and {_count(done.change.nics, 'NIC')}"
    if done.backup is None:
        click.echo(f"{done.path}: would {direction} {what}")
    else:
        click.echo(f"{done.path}: {direction}d {what}; the file of before is {done.backup}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
