"""VLAN networks in a manager: an option of `lanloom manager`."""

import click

from lanloom.runtime.feature import CommandOptions

MANAGER_OPTIONS = CommandOptions(
    (
        click.option(
            "--mgmt-vlan",
            type=click.IntRange(1, 4094),
            metavar="ID",
            help="VLAN id of the management network, until agents report it. Networks of mgmt get no node addresses on "
            "it.",
        ),
    ),
    lambda values: values["mgmt_vlan"] or 0,
)
"""The setting of VLAN networks in `lanloom manager`: the management VLAN id, 0 for unknown."""
