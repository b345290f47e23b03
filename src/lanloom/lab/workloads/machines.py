"""Which nodes of a lab run, and for the how manieth time: what ran on a node before it was off is gone."""

from collections.abc import Callable


class Machines:
    """The lab tells of its nodes; kubelets ask."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._boots: dict[str, int] = {}
        self._removed: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Calls with a node's name whenever it comes or goes."""
        self._listeners.append(listener)

    def boot(self, node: str) -> int | None:
        """The number of its boot, a new one each time; None while it is off."""
        return self._boots.get(node) if node in self._addresses else None

    def address(self, node: str) -> str:
        """The address of a node that runs."""
        return self._addresses[node]

    def is_removed(self, node: str) -> bool:
        """Whether there is no such node any more."""
        return node in self._removed

    def started(self, node: str, address: str) -> None:
        """The node runs from now on."""
        self._removed.discard(node)
        self._addresses[node] = address
        self._boots[node] = self._boots.get(node, 0) + 1
        self._tell(node)

    def stopped(self, node: str) -> None:
        """The node is off, or will be in a moment."""
        if self._addresses.pop(node, None) is not None:
            self._tell(node)

    def removed(self, node: str) -> None:
        """The node will not come back."""
        self._addresses.pop(node, None)
        self._removed.add(node)
        self._tell(node)

    def _tell(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)
