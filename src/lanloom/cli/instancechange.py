"""`lanloom instance add|modify|remove`: changes of instances."""

import click

from lanloom.cli.instancerunning import (
    Changing,
    changing_options,
    force_option,
    insistence,
    instance_argument,
)
from lanloom.cli.refusals import refusals


@click.command()
@click.argument("instance")
@click.option(
    "--net",
    "nets",
    multiple=True,
    metavar="N:ip0=IP,...,network=NETWORK",
    help="A NIC, numbered from 0. An IP is an address, pool, pool4, pool6 or the name of a pool. Further keys: mac, "
    "mode, link, vlan, name. May be given many times.",
)
@force_option
@changing_options
def add(changing: Changing, nets: tuple[str, ...], force: bool) -> None:
    """Add an instance with its NICs, and give them addresses: all that is asked for, or nothing.

    Explicit addresses are taken first, then automatic ones: the lowest that is free, of the network's subnets and
    pools in order. Where KubeVirt has a virtual machine of that name, the NICs are that machine's.

    \b
    Exit code: 0 if it was added, 1 if that is refused, 2 for what is malformed.

    \b
    Examples:
      lanloom instance add --net 0:ip=pool,network=net1 inst1
      lanloom instance add --net 0:ip0=192.0.2.4,ip1=pool,ip2=some-pool,network=net1 inst1
      lanloom instance add --net 0:ip=pool6,network=net1 --net 1:mode=bridged,link=br1 inst1
      lanloom instance add --net 0:ip=192.0.2.1,network=net1 --force --dry-run inst1
    """
    from lanloom.app.ipam.instancechange import add as add_instance
    from lanloom.ipam.rules.net_option import new_nics

    with refusals():
        steps = new_nics(nets)
    changing.run(lambda client, key, how: add_instance(client, key, steps, insistence(force), how))


@click.command()
@instance_argument
@click.option(
    "--net",
    "nets",
    multiple=True,
    metavar="NIC:modify,...|-1:add,...|NIC:remove",
    help="Changes, adds or removes a NIC, named by its number (-1: the last, or at the end), name or UUID. "
    "ipN=none takes an address away, ipN=pool takes another one. May be given many times.",
)
@force_option
@changing_options
def modify(changing: Changing, nets: tuple[str, ...], force: bool) -> None:
    """Change an instance's NICs: all that is asked for together, or nothing.

    Numbers of addresses are those before the change; a number after the last one appends. What is not mentioned stays.
    An instance without a NIC is gone.

    \b
    Exit code: 0 if it was changed, 1 if that is refused, 2 for what is malformed.

    \b
    Examples:
      lanloom instance modify --net 0:modify,ip1=192.0.2.10 inst1
      lanloom instance modify --net -1:add,ip0=pool,ip1=192.0.2.4,network=net1 inst1
      lanloom instance modify --net 1:modify,ip1=none inst1
      lanloom instance modify --net 0:network=net2,ip=pool --net 1:remove --dry-run inst1
    """
    from lanloom.app.ipam.instancechange import modify as modify_instance
    from lanloom.ipam.rules.net_option import changes

    with refusals():
        steps = changes(nets)
    changing.run(lambda client, key, how: modify_instance(client, key, steps, insistence(force), how))


@click.command()
@instance_argument
@changing_options
def remove(changing: Changing) -> None:
    """Remove an instance: its NICs, and so its addresses.

    Those of a virtual machine stay its own until it has ended.

    \b
    Exit code: 0 if it was removed, 1 if that is refused.

    \b
    Examples:
      lanloom instance remove inst1
      lanloom instance remove --dry-run inst1
    """
    from lanloom.app.ipam.instancechange import remove as remove_instance

    changing.run(remove_instance)
