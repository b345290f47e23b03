"""Which kinds are served right now: the built-in ones, and the custom ones as CRDs come and go."""

from collections.abc import Callable, Iterable

from lanloom_embedded.engine.strategies import BuiltinStrategy, CustomStrategy, Strategy
from lanloom_embedded.kinds import GroupPlural, ServedKind


class Registry:
    """The served kinds. `generation` grows with every change, for whoever keeps documents made from them."""

    def __init__(self, builtins: Iterable[ServedKind]) -> None:
        self._kinds: dict[GroupPlural, tuple[ServedKind, ...]] = {}
        self._overrides: dict[GroupPlural, Callable[[ServedKind], Strategy]] = {}
        self.generation = 0
        for kind in builtins:
            self._kinds[kind.key] = (*self._kinds.get(kind.key, ()), kind)
        self._index()

    def kinds(self) -> tuple[ServedKind, ...]:
        """All served kinds, each resource's preferred version first."""
        return tuple(kind for versions in self._kinds.values() for kind in versions)

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind behind a URL."""
        return self._by_path.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> ServedKind | None:
        """The kind of an object that names itself, or of a reference to one."""
        return self._by_kind.get((group, version, kind))

    def strategy(self, kind: ServedKind) -> Strategy:
        """The rules of a served kind."""
        path = (kind.group, kind.version, kind.plural)
        found = self._strategies.get(path)
        if found is None:
            found = self._make_strategy(kind)
            self._strategies[path] = found
        return found

    def override(self, resource: GroupPlural, make: Callable[[ServedKind], Strategy]) -> None:
        """Gives a resource rules of its own."""
        self._overrides[resource] = make

    def any_version(self, resource: GroupPlural) -> ServedKind | None:
        """A resource in its preferred version."""
        return next(iter(self.versions(resource)), None)

    def versions(self, resource: GroupPlural) -> tuple[ServedKind, ...]:
        """A resource in all its versions, the preferred one first."""
        return self._kinds.get(resource, ())

    def serve(self, resource: GroupPlural, versions: tuple[ServedKind, ...]) -> None:
        """Serves a custom resource in these versions only; without any, no longer. Built-in ones stay."""
        present = self._kinds.get(resource, ())
        if present == versions or any(kind.builtin for kind in present):
            return
        if versions:
            self._kinds[resource] = versions
        else:
            self._kinds.pop(resource, None)
        self._index()

    def _make_strategy(self, kind: ServedKind) -> Strategy:
        if kind.key in self._overrides:
            return self._overrides[kind.key](kind)
        return BuiltinStrategy(kind) if kind.builtin else CustomStrategy(kind)

    def _index(self) -> None:
        self.generation += 1
        self._strategies: dict[tuple[str, str, str], Strategy] = {}
        kinds = self.kinds()
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._by_kind = {(kind.group, kind.version, kind.kind): kind for kind in kinds}
