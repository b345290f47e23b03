"""What pods of a trial send to each other: who is there, and which peers each heard. Pure; `probe` has the sockets."""

import json
from collections.abc import Iterable
from typing import Any

from lanloom.runtime.trials import Report, Task

ETHERTYPE = 0x88B5
"""For local experiments (IEEE 802): no switch and no host takes such frames for anything else."""

LINGER = 15
"""Frames that a pod sends after it has finished, so that others hear that it heard them."""


class Exchange:
    """One pod's part: what it sends, what it makes of what it hears, and when it is done."""

    def __init__(self, task: Task, addresses: Iterable[str] = ()) -> None:
        self.task = task
        self._addresses = tuple(addresses)
        self._heard: dict[str, frozenset[str]] = {}
        self._strangers: set[str] = set()
        self._routed: set[str] = set()
        self._confirmed: dict[str, frozenset[str]] = {}
        self.peers: dict[str, tuple[str, ...]] = {}

    def message(self) -> bytes:
        """Return what to send: who this is, its addresses, and the peers that it has heard and reached so far."""
        return json.dumps(
            {
                "run": self.task.run,
                "name": self.task.name,
                "addresses": self._addresses,
                "heard": sorted(self._heard),
                "routed": sorted(self._routed),
            }
        ).encode()

    def receive(self, message: bytes) -> None:
        """Take a frame in; those of other checks, and of unknown senders, are left out."""
        said = self._read(message)
        name = said.get("name", "")
        if name in self.task.strangers:
            self._strangers.add(name)
        if name in self.task.peers:
            self._heard[name] = frozenset(said.get("heard", ()))
            self._confirmed[name] = frozenset(said.get("routed", ()))
            self.peers[name] = tuple(said.get("addresses", ()))

    def receive_routed(self, message: bytes) -> None:
        """Take in what came to this pod's IP address."""
        name = self._read(message).get("name", "")
        if name in self.task.peers:
            self._routed.add(name)

    def _read(self, message: bytes) -> dict[str, Any]:
        try:
            # A frame is filled up with zeros to its least length.
            said = json.loads(message.rstrip(b"\0"))
        except ValueError:
            return {}
        return said if isinstance(said, dict) and said.get("run") == self.task.run else {}

    @property
    def is_paired(self) -> bool:
        """Whether every peer was heard, and has said that it heard this pod, on both ways where there are two."""
        me = self.task.name
        heard = all(me in self._heard.get(peer, ()) for peer in self.task.peers)
        routed = all(me in self._confirmed.get(peer, ()) for peer in self.task.peers)
        return heard and (not self.task.routed or (routed and self._routed >= set(self.task.peers)))

    @property
    def heard_strangers(self) -> bool:
        """Whether a peer was heard that must not be."""
        return bool(self._strangers)

    def report(self) -> Report:
        """Return what was found."""
        me = self.task.name
        return Report(
            heard=tuple(sorted(self._heard)),
            mutual=tuple(sorted(peer for peer, heard in self._heard.items() if me in heard)),
            routed=tuple(sorted(self._routed)),
            strangers=tuple(sorted(self._strangers)),
            addresses=self._addresses,
        )


def is_good(task: Task, report: Report) -> bool:
    """Return whether a pod found what it was sent for."""
    return not (
        report.error
        or report.strangers
        or set(task.peers) - set(report.mutual)
        or (task.routed and set(task.peers) - set(report.routed))
        or {ping.title for ping in task.pings} - set(report.answered)
    )
