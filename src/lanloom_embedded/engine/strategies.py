"""Rules of each kind when its objects are written, and the registry of the kinds that are served.

A strategy answers for one served kind; the write path knows only this interface. Custom kinds follow their schema,
built-in ones their tables. Custom kinds come and go with their CRDs.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from lanloom.runtime.https.errors import BadRequest
from lanloom.runtime.https.fields import FieldError
from lanloom_embedded import syntax
from lanloom_embedded.builtin import (
    default_builtin,
    prune_builtin,
    validate_builtin,
)
from lanloom_embedded.engine.metadata import NameRule, bare_finalizers, check_bare_finalizers
from lanloom_embedded.kinds import CRDS, GroupPlural, Raw, ServedKind
from lanloom_embedded.schema import CompiledSchema


class Strategy(Protocol):
    """The rules of one kind."""

    name_rule: NameRule
    generation: bool
    """Whether metadata.generation counts changes of what is wanted."""
    unconditional_update: bool
    """Whether a PUT may come without a resourceVersion."""
    create_on_update: bool
    """Whether a PUT of an unknown name creates the object."""

    def decode(self, obj: Raw) -> list[str]:
        """Prune and fill in defaults, in place; return the paths of unknown fields."""
        ...

    def prepare_create(self, obj: Raw) -> None:
        """Set what the server decides about a new object, in place."""
        ...

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Take back what this request may not change, in place."""
        ...

    def check(self, obj: Raw, old: Raw | None, subresource: str = "") -> list[FieldError]:
        """Return the rules that the object breaks; `old` is None when it is new."""
        ...

    def warnings(self, obj: Raw, old: Raw | None) -> list[str]:
        """Return warnings about a valid object; `old` is None when it is new."""
        ...


class CustomStrategy:
    """Objects of a CRD: its schema says almost everything."""

    generation = True
    unconditional_update = False
    create_on_update = False

    def __init__(self, kind: ServedKind) -> None:
        self.name_rule: NameRule = syntax.subdomain
        self._schema = CompiledSchema(kind.schema) if kind.schema is not None else None
        self._has_status = kind.has_status

    def decode(self, obj: Raw) -> list[str]:
        """Prune and fill in defaults, in place; return the paths of unknown fields."""
        if self._schema is None:
            return []
        unknown = self._schema.prune(obj)
        self._schema.default(obj)
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """Give a new object the status of the defaults where the status is apart."""
        if self._has_status:
            obj.pop("status", None)
            if self._schema is not None:
                self._schema.default(obj)

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Leave the status alone on the object's own path, and all else, even labels, on the status path."""
        if subresource == "status":
            status, version = obj.get("status"), obj["metadata"].get("resourceVersion")
            obj.clear()
            obj.update(old, metadata=dict(old["metadata"]))
            put(obj["metadata"], "resourceVersion", version)
            put(obj, "status", status)
        elif self._has_status:
            put(obj, "status", old.get("status"))

    def check(self, obj: Raw, old: Raw | None, subresource: str = "") -> list[FieldError]:
        """Return the rules of the schema that the object breaks; on the status path, those of the status."""
        if self._schema is None:
            return []
        only = subresource if subresource == "status" else ""
        return self._schema.validate(obj, old, only)

    def warnings(self, obj: Raw, old: Raw | None) -> list[str]:
        """Return warnings of new finalizers without a domain, which others may use by accident."""
        known = old["metadata"].get("finalizers", ()) if old is not None else ()
        added = set(obj["metadata"].get("finalizers", ())) - set(known)
        return [
            f'metadata.finalizers: "{each}": prefer a domain-qualified finalizer name to avoid accidental '
            "conflicts with other finalizer writers"
            for each in bare_finalizers(sorted(added))
        ]


class BuiltinStrategy:
    """Objects of Kubernetes' own kinds."""

    def __init__(self, kind: ServedKind) -> None:
        self._kind = kind
        name = str(kind.key)
        self.name_rule: NameRule = _NAME_RULES.get(name, syntax.subdomain)
        self.generation = name in _GENERATIONS
        self.unconditional_update = name not in _CONDITIONAL
        self.create_on_update = name in _CREATE_ON_UPDATE

    def decode(self, obj: Raw) -> list[str]:
        """Prune and fill in defaults, in place; return the paths of unknown fields."""
        unknown = prune_builtin(self._kind, obj)
        default_builtin(self._kind, obj)
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """Give a new object the status that the defaults say; a node brings its own."""
        if self._kind.has_status and str(self._kind.key) not in _BORN_WITH_STATUS:
            obj.pop("status", None)
            default_builtin(self._kind, obj)

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Leave the status alone on the object's own path, and the specification on the status path."""
        if subresource == "status":
            put(obj, "spec", old.get("spec"))
        elif self._kind.has_status:
            put(obj, "status", old.get("status"))

    def check(self, obj: Raw, old: Raw | None, subresource: str = "") -> list[FieldError]:
        """Return the rules that the object breaks."""
        broken = validate_builtin(self._kind, obj, old)
        check_readable(self._kind, broken)
        found = [] if self._kind.key == CRDS else check_bare_finalizers(obj["metadata"].get("finalizers", ()))
        return found + broken

    def warnings(self, obj: Raw, old: Raw | None) -> list[str]:
        """Return the warnings of the kind's own rules."""
        return []


_WRONG_TYPE = " in body must be of type "


def check_readable(kind: ServedKind, broken: list[FieldError]) -> None:
    """Refuse values of wrong types: they can't even be read into a built-in kind. Raises BadRequest."""
    # What begins with these words is about a default within a schema, which can be read.
    wrong = [str(each) for each in broken if each.detail.find(_WRONG_TYPE) > 0]
    if wrong:
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {"; ".join(wrong)}'
        )


_NAME_RULES: dict[str, NameRule] = {
    "namespaces": syntax.dns_label,
    **{
        f"{plural}.rbac.authorization.k8s.io": syntax.path_segment
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
    },
}
_GENERATIONS = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "deployments.apps",
        "daemonsets.apps",
        "pods",
    }
)
_BORN_WITH_STATUS = frozenset({"nodes"})
_CONDITIONAL = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "leases.coordination.k8s.io",
    }
)
_CREATE_ON_UPDATE = frozenset(
    {
        "events",
        "leases.coordination.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
    }
)


def put(obj: Raw, name: str, value: object) -> None:
    """Set a field, or remove it for None."""
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


class Registry:
    """The served kinds. `generation` grows with every change, for caches of documents made from them."""

    def __init__(self, builtins: Iterable[ServedKind]) -> None:
        self._kinds: dict[GroupPlural, tuple[ServedKind, ...]] = {}
        self._overrides: dict[GroupPlural, Callable[[ServedKind], Strategy]] = {}
        self.generation = 0
        for kind in builtins:
            self._kinds[kind.key] = (*self._kinds.get(kind.key, ()), kind)
        self._index()

    def kinds(self) -> tuple[ServedKind, ...]:
        """Return all served kinds, each resource's preferred version first."""
        return tuple(kind for versions in self._kinds.values() for kind in versions)

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """Return the kind behind a URL."""
        return self._by_path.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> ServedKind | None:
        """Return the kind of an object that names itself, or of a reference to one."""
        return self._by_kind.get((group, version, kind))

    def strategy(self, kind: ServedKind) -> Strategy:
        """Return the rules of a served kind."""
        path = (kind.group, kind.version, kind.plural)
        found = self._strategies.get(path)
        if found is None:
            found = self._make_strategy(kind)
            self._strategies[path] = found
        return found

    def override(self, resource: GroupPlural, make: Callable[[ServedKind], Strategy]) -> None:
        """Give a resource rules of its own."""
        self._overrides[resource] = make

    def any_version(self, resource: GroupPlural) -> ServedKind | None:
        """Return a resource in its preferred version."""
        return next(iter(self.versions(resource)), None)

    def versions(self, resource: GroupPlural) -> tuple[ServedKind, ...]:
        """Return a resource in all its versions, the preferred one first."""
        return self._kinds.get(resource, ())

    def serve(self, resource: GroupPlural, versions: tuple[ServedKind, ...]) -> None:
        """Serve a custom resource in these versions only; without any, no longer. Built-in ones stay."""
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
