"""`lanloom ganeti diff`: what differs between a Ganeti cluster's file and the cluster."""

import sys
from pathlib import Path

import click

from lanloom.cli.cluster import ClusterOptions, refusals
from lanloom.cli.options import cluster_options
from lanloom.features.ipam.cli.cluster import read_cluster


@click.command()
@click.argument("config", metavar="CONFIG.DATA", type=click.Path(path_type=Path))
@cluster_options
def diff(config: Path, cluster: ClusterOptions) -> None:
    """Compare a Ganeti cluster's networks and NICs with the cluster.

    Lines with + are only in the file, those with - only in the cluster, and those with ~ differ. An import creates what
    is only in the file. Networks that Lanloom created for LANs and isolated networks are left out.

    Exit code: 0 if nothing differs, 3 if something does, 1 for a failure, 2 if the file can't be read.

    \b
    Example:
      lanloom ganeti diff /var/lib/ganeti/config.data --namespace ganeti
    """
    from lanloom.features.ipam.ganeti.environment import read_config
    from lanloom.features.ipam.ganeti.plan import compare

    with refusals():
        read = read_config(config)
    state = read_cluster(cluster)
    with refusals(reading=True):
        lines = compare(read, state, cluster.place)
    for line in lines:
        click.echo(line)
    sys.exit(DIFFERENT if lines else 0)


DIFFERENT = 3
"""Exit code of `diff` where something differs, as of `lanloom vlan plan`."""
