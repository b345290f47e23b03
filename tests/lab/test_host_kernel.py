"""A lab on a host's own kernel: tried on a node of another lab, which is a host with a full kernel."""

import pytest

from lanloom_lab.assets import default_cache, private_tree
from lanloom_lab.guests.assets import guest_assets
from tests.lab.driver import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NESTED = """
set -eu
export XDG_CACHE_HOME=/tmp/cache
mkdir -p "$XDG_CACHE_HOME/lanloom/{tree}" "$XDG_CACHE_HOME/lanloom/{guests}"
mount --bind / "$XDG_CACHE_HOME/lanloom/{tree}"
mount --bind /opt/lanloom/guests "$XDG_CACHE_HOME/lanloom/{guests}"
ls /sys/class/net > /tmp/links
lanloom lab --state /tmp/lab up --nodes 2 --kernel auto
lanloom lab --state /tmp/lab status --output json
lanloom lab --state /tmp/lab exec node1 -- nmcli general status
lanloom lab --state /tmp/lab exec node2 -- ping -c 1 -w 20 172.31.255.11
lanloom lab --state /tmp/lab node stop node2
lanloom lab --state /tmp/lab exec node1 -- sh -c 'test ! -e /mnt/state && test ! -e /tmp/links'
lanloom lab --state /tmp/lab down
ls /sys/class/net | diff /tmp/links -
grep -v /tmp/cache /proc/self/mounts | grep /tmp/lab || echo no mounts left
"""


def test_a_full_kernel_carries_a_lab(lab: Lab) -> None:
    """On a kernel with every feature, root gets a lab without user-mode Linux, and nothing of it is left."""
    tree = private_tree(default_cache(), lambda line: None).name
    guests = guest_assets(default_cache(), lambda line: None).directory.name
    try:
        printed = lab.on("node3", NESTED.format(tree=tree, guests=guests))
    finally:
        lab.run("node", "reboot", "node3")
    assert '"kernel": "host"' in printed
    assert "1 received" in printed
    assert "no mounts left" in printed
