"""The rules of the kinds that hold other objects: namespaces and CustomResourceDefinitions."""

from collections.abc import Callable, Iterable

from lanloom.apiserver import syntax
from lanloom.apiserver.engine import crds
from lanloom.apiserver.engine.strategies import BuiltinStrategy
from lanloom.apiserver.kinds import Raw, ServedKind


class NamespaceStrategy(BuiltinStrategy):
    """Namespaces are held back by `spec.finalizers`, which only the finalize path changes."""

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(kind)
        self.name_rule = syntax.dns_label

    def prepare_create(self, obj: Raw) -> None:
        """A new namespace is active, and the clean-up must agree before it goes."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Keeps the specification but on the finalize path."""
        super().prepare_update(obj, old, subresource)
        if subresource == "finalize":
            obj["status"] = old.get("status", {})
        else:
            obj["spec"] = old.get("spec", {})


class CrdStrategy(BuiltinStrategy):
    """CRDs whose status says within the same write whether their names are accepted."""

    def __init__(
        self, kind: ServedKind, others: Callable[[], Iterable[Raw]], now: Callable[[], float]
    ) -> None:
        super().__init__(kind)
        self._others = others
        self._now = now

    def settle(self, obj: Raw) -> None:
        """Sets accepted names, conditions and stored versions."""
        crds.settle(obj, self._others(), self._now())
