"""Whether an agent answers DHCP requests: an option of `lanloom agent`."""

import click

from lanloom.runtime.feature import CommandOptions

AGENT_OPTIONS = CommandOptions(
    (
        click.option(
            "--guest-dhcp",
            is_flag=True,
            help="Answer DHCP requests of the node's pods and machines on networks whose subnets have dhcp. One agent "
            "of a node may do so. It must be able to enter the namespaces of LANs, if there are any, and needs the "
            "right NET_RAW.",
        ),
    ),
    lambda values: bool(values.get("guest_dhcp")),
)
"""The setting of DHCP in `lanloom agent`: whether it answers."""
