"""The released nodes of a roll-out in a few words: by name while they are few, and then by ranges of names.

    "released": ["node0001..node1870", "node1873", "node4999"]

Each step of a roll-out goes to every agent of the cluster network, so what it says must not grow with the nodes. Nodes
are released in the order of their names, so those released are a few ranges, split where a node is down and between
nodes that were released ahead of the others.

A name between the first and the last one of a range is released, whether or not it was a node's when that was written:
a node that joins there takes the configuration up at once. It has no other one to lose.

Agents and managers of earlier versions know names and `*` alone. They take a range for a node that does not exist, so
none of their nodes is released too early, and they write it back as it is. For them a node in a range is named as well
while it has not taken the configuration up (`stages`).

Rejected: a threshold in another order, such as that of hashes. It needs the same exceptions, and no user could read it.
Rejected: an annotation of each node's own object. It would cost a request for each node.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from itertools import accumulate, groupby

EVERY_NODE = "*"

MOST_NAMED = 100
"""So many released nodes are named one by one, in the order of their release."""

_TO = ".."
"""Between first and last name of a range; no node has it in its name."""


class ReleasedNodes:
    """The nodes that an annotation releases."""

    def __init__(self, released: Iterable[str]) -> None:
        entries = tuple(released)
        self.names = tuple(entry for entry in entries if _TO not in entry)
        ranges = sorted(entry.split(_TO, 1) for entry in entries if _TO in entry)
        self._firsts = [first for first, _ in ranges]
        self._lasts = list(accumulate((last for _, last in ranges), max))
        self._bounds = frozenset(name for bounds in ranges for name in bounds)
        self._named = frozenset(self.names)

    def __contains__(self, node: str) -> bool:
        """Return whether the node is released."""
        if node in self._named or EVERY_NODE in self._named:
            return True
        before = bisect_right(self._firsts, node)
        return before > 0 and node <= self._lasts[before - 1]

    def added(self, nodes: Iterable[str], known: Iterable[str], named: Collection[str]) -> tuple[str, ...]:
        """Return the entries that release these, too.

        Of the `known` nodes they release no others, and none is released no more. Those `named` have an entry of their
        own, if they are released.
        """
        names = tuple(dict.fromkeys((*self.names, *nodes)))
        if not self._firsts and len(names) <= MOST_NAMED:
            return names
        released, entries = frozenset(names), list[str]()
        ordered = sorted({*known, *names, *self._bounds})
        for is_released, run in groupby(ordered, key=lambda name: name in released or name in self):
            found = tuple(run)
            if is_released and len(found) > 1:
                entries += (f"{found[0]}{_TO}{found[-1]}", *(name for name in found if name in named))
            elif is_released:
                entries += found
        return tuple(entries)
