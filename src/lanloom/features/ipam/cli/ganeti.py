"""`lanloom ganeti`: moving a Ganeti cluster's networks to the form with subnets, and into Lanloom."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import ClusterOptions, refusals, report_notes, run
from lanloom.cli.options import cluster_options, dry_run_option
from lanloom.features.ipam.cli.cluster import (
    complete_instances,
    complete_networks,
    read_cluster,
    read_networks,
)
from lanloom.features.ipam.cli.ganetidiff import diff

if TYPE_CHECKING:
    from lanloom.features.ipam.ganeti.environment import Environment, InstanceNics
    from lanloom.features.ipam.ganeti.files import Converted, Direction
    from lanloom.features.ipam.ganeti.formats.config import Config
    from lanloom.features.ipam.ganeti.plan import Import, NetworkRow
    from lanloom.kube.ports import Client

_paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@click.group(name="ganeti")
def command() -> None:
    """Import, check and convert a Ganeti cluster's networks.

    Upgrade and downgrade rewrite a cluster's config.data and the KVM runtime files of its nodes. Before you run them,
    stop Ganeti's daemons on every node: they keep the configuration in memory and would overwrite the file. No release
    of Ganeti reads the format with subnets, so downgrade before you start the daemons. An import needs no upgrade and
    only reads.

    \b
    Examples:
      lanloom ganeti verify /var/lib/ganeti/config.data
      lanloom ganeti upgrade --dry-run /var/lib/ganeti/config.data
      lanloom ganeti upgrade /run/ganeti/kvm-hypervisor/conf
      lanloom ganeti import /var/lib/ganeti/config.data --namespace ganeti
      lanloom ganeti diff /var/lib/ganeti/config.data --namespace ganeti
      lanloom ganeti env inst1.example.com --output shell
    """


@command.command()
@_paths_argument
@dry_run_option
@click.option(
    "--force",
    is_flag=True,
    help="Upgrade despite errors of `verify` that the upgrade does not correct.",
)
def upgrade(paths: tuple[Path, ...], dry_run: bool, force: bool) -> None:
    """Convert Ganeti's files to the format with subnets.

    Networks then have subnets and pools, and NICs have a list of addresses. A PATH is a config.data, a KVM runtime
    file, or a directory with *.runtime files. Each network gets one subnet with one pool over all of it, and its IPv6
    network becomes a second subnet. Reservations are recounted from the NICs, and corrections are printed. Files in the
    new format are not changed.

    Nothing is written before all files are read and verified. A file is refused if `lanloom ganeti verify` finds an
    error that the recount does not correct. A rewritten file keeps its owner and mode. The old file remains as
    FILE.bak-TIME. No release of Ganeti reads the new format: downgrade before you start Ganeti again.

    Exit code: 0 on success, 1 if a file has errors or can't be written, 2 if it can't be read as a file of Ganeti.

    \b
    Examples:
      lanloom ganeti upgrade --dry-run config.data
      lanloom ganeti upgrade /var/lib/ganeti/config.data /run/ganeti/kvm-hypervisor/conf
    """
    _convert(paths, "upgrade", dry_run, force=force)


@command.command()
@_paths_argument
@dry_run_option
def downgrade(paths: tuple[Path, ...], dry_run: bool) -> None:
    """Convert Ganeti's files to the format that Ganeti reads.

    The old format can represent an IPv4 subnet with one pool over all of it, an IPv6 subnet without a pool, and one
    address for each NIC. If the files contain anything else, it is listed, and nothing is written. An upgrade followed
    by a downgrade restores the file byte for byte if its reservations were correct.

    Exit code: 0 on success, 1 if something can't be represented or written, 2 if a file can't be read.

    \b
    Examples:
      lanloom ganeti downgrade --dry-run config.data
      lanloom ganeti downgrade /var/lib/ganeti/config.data /run/ganeti/kvm-hypervisor/conf
    """
    _convert(paths, "downgrade", dry_run)


@command.command()
@_paths_argument
def verify(paths: tuple[Path, ...]) -> None:
    """Check networks and NICs in Ganeti's files, in either format. It changes nothing.

    Exit code: 0 if there are no errors, 1 if there are, 2 if a file can't be read as a file of Ganeti.

    \b
    Examples:
      lanloom ganeti verify /var/lib/ganeti/config.data
      lanloom ganeti verify /run/ganeti/kvm-hypervisor/conf
    """
    from lanloom.features.ipam.ganeti.files import verify as verify_files

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


def _convert(paths: tuple[Path, ...], direction: "Direction", dry_run: bool, *, force: bool = False) -> None:
    from datetime import UTC, datetime

    from lanloom.features.ipam.ganeti.files import carry_out, plan
    from lanloom.refusals import Denied

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with refusals():
        files = plan(paths, direction, force=force)
        if not files:
            click.echo("there are no files *.runtime: nothing to do", err=True)
        for done, planned in enumerate(files):
            try:
                _report_conversion(carry_out(planned, stamp, dry_run=dry_run), direction)
            except Denied as error:
                left = f"; {done} of {len(files)} files are converted, the others are unchanged; run the command again"
                raise Denied(f"{error}{left}" if done else str(error)) from None


def _report_conversion(done: "Converted", direction: "Direction") -> None:
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
        click.echo(f"{done.path}: {direction}d {what}; the previous file is {done.backup}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@command.command()
@click.argument("instance", required=False, shell_complete=complete_instances)
@click.option(
    "--hooks/--plain",
    default=True,
    show_default=True,
    help="Print the variables of hooks, prefixed with INSTANCE_NICn_, or those of an interface script.",
)
@click.option(
    "--nic",
    type=click.IntRange(min=0),
    help="With --plain: number of the NIC. Required if there are several.",
)
@click.option(
    "--network",
    metavar="NAME",
    shell_complete=complete_networks,
    help="Print the hook variables of this network instead of an instance.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read a config.data file of Ganeti, in either format, instead of the cluster.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["env", "json", "shell"]),
    default="env",
    show_default=True,
    help="Lines NAME=value, a JSON object, or lines for a shell's eval, without names that contain a colon.",
)
@cluster_options
def env(
    instance: str | None,
    hooks: bool,
    nic: int | None,
    network: str | None,
    config: Path | None,
    output: str,
    cluster: ClusterOptions,
) -> None:
    """Print the environment of Ganeti hooks and scripts.

    A NIC with one address, on a network that Ganeti can represent, has Ganeti's own variables of NICs and networks.
    Variables of other things, such as INTERFACE, ACTION, TAGS and PATH, are omitted. More addresses, or a network with
    more subnets, add IP:i, NETWORK_SUBNET:i, NETWORK_GATEWAY:i and NETWORK_DHCP:i. A POSIX shell drops variables whose
    names contain a colon, so the same values are also in IP_i, NETWORK_SUBNET_i and so on. When Ganeti runs a hook, it
    prefixes each name with GANETI_, and with GANETI_POST_ for the state after the operation.

    \b
    Examples:
      lanloom ganeti env inst1
      eval "$(lanloom ganeti env inst1 --output shell)"
      lanloom ganeti env inst1 --plain --nic 0
      lanloom ganeti env inst1 --config /var/lib/ganeti/config.data --output json
      lanloom ganeti env --network net1
    """
    if (instance is None) == (network is None):
        raise click.UsageError("name an instance, or a network with --network")
    with refusals():
        if network is not None:
            _print(_network_env(network, config, cluster), output)
        else:
            described = _described(str(instance), config, cluster)
            _print(_instance_env(described, hooks, nic), output)


def _instance_env(described: "InstanceNics", hooks: bool, nic: int | None) -> "Environment":
    from lanloom.features.ipam.ganeti.environment import hook_environment, script_environment

    if hooks:
        if nic is not None:
            raise click.UsageError("--nic is allowed only with --plain; hooks get all NICs at once")
        return hook_environment(described.name, described.nics)
    count = len(described.nics)
    if nic is None and count != 1:
        raise click.UsageError(f"{described.name} has {count} NICs; choose one with --nic")
    index = nic or 0
    if index >= count:
        raise click.UsageError(f"{described.name} has no NIC {index}; it has {count}")
    return script_environment(described.name, index, *described.nics[index])


def _described(instance: str, config: Path | None, cluster: ClusterOptions) -> "InstanceNics":
    from lanloom.features.ipam.commands.instances import check_instance
    from lanloom.features.ipam.ganeti.environment import instance_of_config, instance_of_state, read_config

    if config is not None:
        return instance_of_config(read_config(config), instance)
    check_instance(instance)
    state = read_cluster(cluster)
    with refusals(reading=True):
        return instance_of_state(state, cluster.place, instance)


def _network_env(name: str, config: Path | None, cluster: ClusterOptions) -> "Environment":
    from lanloom.features.ipam.ganeti.environment import (
        network_environment,
        network_of_config,
        network_of_state,
        read_config,
    )

    if config is not None:
        return network_environment(network_of_config(read_config(config), name))
    state = read_networks(cluster, [name])
    with refusals(reading=True):
        return network_environment(network_of_state(state, name))


def _print(env: "Environment", output: str) -> None:
    from lanloom.features.ipam.ganeti.environment import as_lines, as_shell

    if output == "json":
        import json

        click.echo(json.dumps(dict(sorted(env.items())), indent=2))
        return
    for line in (as_shell if output == "shell" else as_lines)(env):
        click.echo(line)


@command.command(name="import")
@click.argument("config", metavar="CONFIG.DATA", type=click.Path(path_type=Path))
@dry_run_option
@click.option(
    "--keep",
    is_flag=True,
    help="Keep existing objects that differ from the file, instead of refusing the import.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Import despite errors of `verify`, unless they leave open what is meant.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the manager has allocated the addresses.")
@cluster_options
def import_(
    config: Path, dry_run: bool, keep: bool, force: bool, no_wait: bool, cluster: ClusterOptions
) -> None:
    """Import a Ganeti cluster's networks and NICs.

    CONFIG.DATA can have the old format or the one with subnets; it is only read. Connections and tags of networks are
    imported too. Networks and NICs keep their UUIDs, and NICs keep their addresses. Names that are not allowed in
    Lanloom are adapted and printed. If the file conflicts with existing objects, nothing is written and each conflict
    is printed. Identical objects are not changed, so you can repeat an interrupted import. Objects that were changed
    since an earlier import conflict; --keep leaves them unchanged and imports the new ones. A file with errors that
    `lanloom ganeti verify` finds is refused, but for wrong reservations: they follow from the NICs here.

    Exit code: 0 on success, 1 for a conflict or a failure, 2 if the file can't be imported.

    \b
    Examples:
      lanloom ganeti import --dry-run /var/lib/ganeti/config.data
      lanloom ganeti import /var/lib/ganeti/config.data --namespace ganeti
    """
    from lanloom.features.ipam.ganeti.environment import read_config

    with refusals():
        read = read_config(config)

    namespace = cluster.place

    async def bring(client: "Client") -> "Import":
        plan = await _plan_import(client, read, namespace, keep=keep, force=force)
        if not dry_run:
            await _import(client, plan, wait=not no_wait)
        return plan

    _report_import(run(cluster, bring), dry_run)


async def _plan_import(
    client: "Client", config: "Config", namespace: str, *, keep: bool, force: bool
) -> "Import":
    from lanloom.features.ipam.ganeti.importing import check_namespace
    from lanloom.features.ipam.ganeti.plan import plan_import
    from lanloom.features.ipam.state import read_state
    from lanloom.features.ipam.wirecontext import read_wire_context

    await check_namespace(client, namespace)
    state, context = await read_state(client), await read_wire_context(client)
    return plan_import(config, state, namespace, keep=keep, force=force, context=context)


async def _import(client: "Client", plan: "Import", *, wait: bool) -> None:
    from lanloom.cli.console import waiting
    from lanloom.features.ipam.ganeti.importing import carry_out

    with waiting("import") as report:
        await carry_out(client, plan, report, wait=wait)


def _report_import(plan: "Import", dry_run: bool) -> None:
    from lanloom.cli.listing import Listing
    from lanloom.cli.query import Field, Query

    def outcome(row: "NetworkRow") -> str:
        return ("to be created" if dry_run else "created") if row.new else "there already"

    if plan.rows:
        query: Query[NetworkRow] = Query(
            (
                Field("name", "Network", "text", "Name", lambda row: row.name),
                Field("object", "Object", "text", "Name of the object", lambda row: row.object),
                Field("subnets", "Subnets", "list", "CIDRs", lambda row: row.subnets or None),
                Field("nics", "NICs", "number", "NICs in the file", lambda row: row.nics),
                Field("addresses", "Addresses", "number", "Their addresses", lambda row: row.addresses),
                Field("outcome", "Outcome", "text", "Result for the network", outcome),
            ),
            ("name", "object", "subnets", "nics", "addresses", "outcome"),
        )
        Listing(query).print(plan.rows)
    report_notes(plan.notes)
    verb = "to be created" if dry_run else "created"
    old, present = len(plan.rows) - len(plan.networks), len(plan.present) + len(plan.kept)
    click.echo(
        f"Networks: {len(plan.networks)} {verb}, {old} there already. "
        f"NICs: {len(plan.nics)} {verb}, {present} there already."
    )


command.add_command(diff)
