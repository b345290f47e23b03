"""What systemd thinks of the units."""

import subprocess
from pathlib import Path

from lanloom.app.hostunit.files import host_files, host_links, unit_names
from lanloom.app.hostunit.tree import Tree


def test_systemd_accepts_the_units() -> None:
    """`systemd-analyze verify` has nothing to say of the units, nor of a boot with them and NetworkManager."""
    tree = Tree(Path("/"))
    for file in host_files():
        tree.write(file)
    for link in host_links():
        tree.write_link(link)
    words = ["systemd-analyze", "verify", "--man=no", *unit_names(), "multi-user.target"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "lanloom" in line or "cycle" in line]
    assert (done.returncode, said) == (0, [])
