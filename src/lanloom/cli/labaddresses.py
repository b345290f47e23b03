"""The demo's part about address management: commands as everybody types them, run against the lab's API server."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lanloom.cli.labcommands import run_command, show_command
from lanloom.lab.errors import DemoFailed

if TYPE_CHECKING:
    from lanloom.cli.waiting import Progress

STORY = (
    (
        "a network with two subnets and a pool in each",
        "network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.100,name=pool1\n"
        "    --subnet cidr=2001:db8::/64,gateway=2001:db8::1,pool demo",
    ),
    (
        "a range taken out of a pool, which splits it",
        "network modify --pool remove:192.0.2.20-192.0.2.50 demo",
    ),
    (
        "an instance whose NIC has three addresses",
        "instance add --net 0:ip0=192.0.2.4,ip1=pool1,ip2=pool6,network=demo vm1",
    ),
    ("how full the pools are", "network usage demo"),
)
"""What is shown: a title, and the command."""

OWNED = ["192.0.2.4", "192.0.2.10", "2001:db8::2"]
"""What the instance must have been given: the explicit address, and the lowest that are free."""

FREE = [9, 50, (1 << 64) - 3]
"""What must be left in the pools: all but what is owned, and in the IPv6 subnet its anycast address and gateway."""

END = ("instance remove vm1", "network remove demo")


def show_addresses(kubeconfig: Path, progress: "Progress") -> None:
    """Runs the story, looks whether it came out as it should, and clears it away. Raises DemoFailed."""
    for title, command in STORY:
        progress(title)
        show_command(kubeconfig, progress, command)
    _check(kubeconfig)
    progress("removing the instance and the network")
    for command in END:
        run_command(kubeconfig, command)


def _check(kubeconfig: Path) -> None:
    """Compares what the API says with what was to be expected."""
    (instance,) = json.loads(run_command(kubeconfig, "instance info vm1 --output json"))
    (usage,) = json.loads(run_command(kubeconfig, "network usage demo --output json"))
    owned = instance["nics"][0]["ips"]
    free = [pool["free"] for pool in usage["pools"]]
    if (owned, free) != (OWNED, FREE):
        raise DemoFailed(
            f"the instance has {owned} and the pools have {free} left, not {OWNED} and {FREE}",
            "Run the demo with --keep, then see `lanloom instance info vm1` and `lanloom network info demo`.",
        )
