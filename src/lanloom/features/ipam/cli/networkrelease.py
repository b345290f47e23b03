"""`lanloom network release`: give back what is kept for a name."""

import click

from lanloom.cli.cluster import ClusterOptions, refusals, run
from lanloom.cli.listing import long_output_option, print_data
from lanloom.cli.options import cluster_options, dry_run_option
from lanloom.features.ipam.cli.cluster import (
    check_idents,
    complete_held,
    network_argument,
    report_differences,
)


@click.command()
@network_argument
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...", shell_complete=complete_held)
@long_output_option
@dry_run_option
@cluster_options
def release(
    network: str, addresses: tuple[str, ...], dry_run: bool, output: str, cluster: ClusterOptions
) -> None:
    """Release addresses that are kept for a name.

    `lanloom network usage` lists these addresses: no pod or virtual machine of that name exists. Other addresses of
    the same NIC are released with it.

    \b
    Exit code: 0 on success, 1 if an address is not kept, 2 for malformed input.

    \b
    Examples:
      lanloom network release net1 192.0.2.10
      lanloom network release net1 192.0.2.10 192.0.2.11 --dry-run
    """
    from msgspec import to_builtins

    from lanloom.features.ipam.cli.grammar.difference import Difference
    from lanloom.features.ipam.commands.release import release as release_held
    from lanloom.features.ipam.rules.addresses import parse_address

    with refusals():
        check_idents([network])
        wanted = tuple(map(parse_address, addresses))
    done = run(cluster, lambda client: release_held(client, network, wanted), dry_run=dry_run)
    if output != "table":
        print_data([to_builtins(hold) for hold in done], output)
        return
    lines = [
        Difference("-", f"{', '.join(hold.ips)}, kept for {hold.owner} until {hold.until}") for hold in done
    ]
    report_differences(lines, "", dry_run=dry_run)
