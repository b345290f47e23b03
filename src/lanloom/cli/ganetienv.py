"""`lanloom ganeti env`: what hooks and scripts are told of an instance or a network."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import read_cluster
from lanloom.cli.instancerunning import complete_instances, namespace_option
from lanloom.cli.networkrunning import complete_networks, read
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.ganetienv import InstanceNics
    from lanloom.ipam.rules.environment import Environment


@click.command(name="env")
@click.argument("instance", required=False, shell_complete=complete_instances)
@click.option(
    "--hooks/--plain",
    default=True,
    show_default=True,
    help="The names that hooks see, with INSTANCE_NICn_ before them, or those that an interface's script sees.",
)
@click.option(
    "--nic", type=click.IntRange(min=0), help="With --plain: which NIC. Needed if there are several."
)
@click.option(
    "--network",
    metavar="NAME",
    shell_complete=complete_networks,
    help="Instead of an instance: what hooks are told of this network.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read a config.data of Ganeti's, in either form, instead of the cluster.",
)
@namespace_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["env", "json", "shell"]),
    default="env",
    show_default=True,
    help="Lines NAME=value, an object, or lines for a shell's eval, which has no names with a colon.",
)
@kubeconfig_option
def env(
    instance: str | None,
    hooks: bool,
    nic: int | None,
    network: str | None,
    config: Path | None,
    namespace: str,
    output: str,
    kubeconfig: str | None,
) -> None:
    """Print the environment that hooks and scripts of Ganeti's have for INSTANCE.

    A NIC with one address on a network as Ganeti has them gives exactly Ganeti's variables. More addresses, or a
    network with more subnets, give IP:i, NETWORK_SUBNET:i, NETWORK_GATEWAY:i and NETWORK_DHCP:i as well. A POSIX shell
    drops variables whose names hold a colon, so the same values are there as IP_i, NETWORK_SUBNET_i and so on. When it
    runs a hook, Ganeti puts GANETI_ before each name, and GANETI_POST_ before those of afterwards.

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
            _print(_network_env(network, config, kubeconfig), output)
        else:
            described = _described(str(instance), config, namespace, kubeconfig)
            _print(_instance_env(described, hooks, nic), output)


def _instance_env(described: "InstanceNics", hooks: bool, nic: int | None) -> "Environment":
    from lanloom.ipam.rules.environment import hook_environment, script_environment

    if hooks:
        if nic is not None:
            raise click.UsageError("--nic goes with --plain; hooks are told of all NICs at once")
        return hook_environment(described.name, described.nics)
    count = len(described.nics)
    if nic is None and count != 1:
        raise click.UsageError(f"{described.name} has {count} NICs; say with --nic which one is meant")
    index = nic or 0
    if index >= count:
        raise click.UsageError(f"{described.name} has no NIC {index}; it has {count}")
    return script_environment(described.name, index, *described.nics[index])


def _described(instance: str, config: Path | None, namespace: str, kubeconfig: str | None) -> "InstanceNics":
    from lanloom.app.ipam.ganetienv import instance_of_config, instance_of_state, read_config
    from lanloom.app.ipam.instances import check_instance

    if config is not None:
        return instance_of_config(read_config(config), instance)
    check_instance(instance)
    state = read_cluster(kubeconfig)
    with refusals(reading=True):
        return instance_of_state(state, namespace, instance)


def _network_env(name: str, config: Path | None, kubeconfig: str | None) -> "Environment":
    from lanloom.app.ipam.ganetienv import network_of_config, network_of_state, read_config
    from lanloom.ipam.rules.environment import network_environment

    if config is not None:
        return network_environment(network_of_config(read_config(config), name))
    state = read(kubeconfig, [name])
    with refusals(reading=True):
        return network_environment(network_of_state(state, name))


def _print(env: "Environment", output: str) -> None:
    from lanloom.ipam.rules.environment import as_lines, as_shell

    if output == "json":
        import json

        click.echo(json.dumps(dict(sorted(env.items())), indent=2))
        return
    for line in (as_shell if output == "shell" else as_lines)(env):
        click.echo(line)
