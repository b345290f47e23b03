"""Watches a lab while others disturb it: profile files from outside, at every moment, and links from time to time."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lanloom.node.keyfile import parse
from tests.lab.driver import Lab
from tests.lab.looks import NODES, Look, look

PAUSE = 0.004
"""Seconds between two looks at all profile directories."""


class ProfileWatch(threading.Thread):
    """Reads every visible profile of every node again and again; `faults` are those that were not whole.

    `foreign` are the contents of files that Lanloom must leave alone.
    """

    def __init__(self, lab: Lab, foreign: dict[str, bytes]) -> None:
        super().__init__(daemon=True)
        self._directories = [lab.state / f"nodes/{node}/NetworkManager/system-connections" for node in NODES]
        self._foreign = foreign
        self._ending = threading.Event()
        self.faults: list[str] = []
        self.seen = 0

    def run(self) -> None:
        """Looks until `end`."""
        while not self._ending.wait(PAUSE):
            for file in self._files():
                self._check(file)

    def end(self) -> None:
        """Ends the watch."""
        self._ending.set()
        self.join()

    def _files(self) -> Iterator[Path]:
        for directory in self._directories:
            yield from directory.glob("[!.]*")

    def _check(self, file: Path) -> None:
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return
        self.seen += 1
        expected = self._foreign.get(file.name)
        if not (content == expected if expected is not None else whole(file.name, content)):
            self.faults.append(f"{file}: {content!r}")


def whole(name: str, content: bytes) -> bool:
    """Whether this is a complete profile of Lanloom's: its last line is the mark, and it names the file's VLAN."""
    sections = parse(content)
    vid = sections.get("vlan", {}).get("id", "")
    owner = sections.get("user", {}).get("lanloom.owner", "")
    network = owner.rpartition("/")[0]
    return (
        name == f"{network}-vlan{vid}.nmconnection"
        and content.endswith(f"lanloom.owner={network}/{vid}\n".encode())
        and sections["vlan"]["parent"] == f"{network}-br"
        and "method" in sections["ipv4"]
        and "method" in sections["ipv6"]
    )


FOREIGN_LINKS = ("eth0", "mgmt-bo", "mgmt-br", "mgmt-br.2021", "foreign-br", "foreign0")

PLANT = """
ip link add foreign-br type bridge vlan_filtering 1
ip link add foreign0 type dummy
ip link set foreign0 master foreign-br up
ip link set foreign-br up
bridge vlan add vid 77 dev foreign-br self
bridge vlan add vid 77-79 dev foreign0
ip address add 10.77.0.1/24 dev foreign-br
"""
"""A bridge that is not Lanloom's, with VLAN ids, a port and an address."""

UPROOT = "ip link delete foreign-br; ip link delete foreign0"


def foreign_state(lab: Lab, node: str) -> dict[str, Any]:
    """What Lanloom must not touch on a node; VLAN 2014 of the installer's bridge is a test's, and left out."""
    seen = look(lab, node)
    return {name: _state(seen, name) for name in FOREIGN_LINKS if name in seen.links}


def _state(seen: Look, name: str) -> list[object]:
    link = seen.links[name]
    ids = seen.ids.get(name, frozenset()) - ({2014} if name.startswith("mgmt") else set())
    return [
        link["ifindex"],
        link["mtu"],
        "UP" in link["flags"],
        link.get("master"),
        link.get("ifalias"),
        sorted(ids),
        seen.address(name),
    ]
