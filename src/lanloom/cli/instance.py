"""`lanloom instance`: instances with their NICs, as `gnt-instance` has them."""

from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import read_cluster
from lanloom.cli.instancechange import add, modify, remove
from lanloom.cli.instancerunning import instances_argument, namespace_option
from lanloom.cli.listing import (
    Listing,
    fields_arguments,
    listing_options,
    output_option,
    print_data,
    print_fields,
)
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.instances import Instance
    from lanloom.ipam.rules.query import Query


def _fields() -> "Query[Instance]":
    from lanloom.app.ipam.instancefields import INSTANCE_FIELDS

    return INSTANCE_FIELDS


@click.group(name="instance")
def command() -> None:
    """Manage instances: their NICs, and the addresses that these have.

    An instance is the NICs that name it as their owner; with KubeVirt it is the virtual machine.

    \b
    Examples:
      lanloom instance add --net 0:ip0=192.0.2.4,ip1=pool,network=net1 inst1
      lanloom instance modify --net 0:modify,ip1=none inst1
      lanloom instance list -o name,nic.ips
    """


@command.command(name="list")
@instances_argument
@listing_options(_fields)
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="The instances of all namespaces.")
@kubeconfig_option
def list_instances(
    instances: tuple[str, ...],
    listing: Listing,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str | None,
) -> None:
    """List instances. What fields there are is told by `lanloom instance list-fields`.

    Of `nic.macs`, which has the MAC address of each NIC, `nic.mac/0` is that of the first one; so with its likes.

    Exit code: 0, or 1 if there is no instance of a name, 2 for a field that there is not.

    \b
    Examples:
      lanloom instance list
      lanloom instance list -A -o +namespace,nic.macs
      lanloom instance list --no-headers --separator : -o name,nic.ips inst1
      lanloom instance list -o name,nic.ip/0,nic.mac/0 --output json
    """
    if instances and all_namespaces:
        raise click.UsageError("names are those of one namespace; leave out --all-namespaces, or the names")
    found = _read(kubeconfig, "" if all_namespaces else namespace, instances)
    with refusals(reading=True):
        listing.print(found)


@command.command(name="list-fields")
@fields_arguments
def list_fields(fields: tuple[str, ...], listing: Listing) -> None:
    """List the fields that `lanloom instance list -o` can show.

    \b
    Examples:
      lanloom instance list-fields
      lanloom instance list-fields nic.ips nic.macs
    """
    print_fields(_fields(), fields, listing)


@command.command()
@instances_argument
@namespace_option
@output_option
@kubeconfig_option
def info(instances: tuple[str, ...], namespace: str, output: str, kubeconfig: str | None) -> None:
    """Show everything of instances: each NIC with its addresses, what it asks for, and why it did not get it.

    \b
    Exit code: 0, or 1 if there is no instance of a name.

    \b
    Examples:
      lanloom instance info inst1
      lanloom instance info inst1 --output json | jq '.[].nics[].ips'
    """
    from lanloom.app.ipam.instanceviews import information
    from lanloom.cli.instanceinfo import print_instance

    found = _read(kubeconfig, namespace, instances)
    with refusals(reading=True):
        if output != "table":
            print_data([information(item) for item in found], output)
            return
        for item in found:
            print_instance(item)


def _read(kubeconfig: str | None, namespace: str, names: tuple[str, ...]) -> "list[Instance]":
    """The instances of those names in their order; without any all of a namespace, or of all of them."""
    from lanloom.app.ipam.instances import check_instance, instances, the_instance

    with refusals():
        for name in names:
            check_instance(name)
    state = read_cluster(kubeconfig)
    with refusals(reading=True):
        return [the_instance(state, namespace, name) for name in names] or instances(state, namespace)


for _command in (add, modify, remove):
    command.add_command(_command)
