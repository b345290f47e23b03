"""A resource: the names under which an API server serves a kind, its columns, and the type that holds it."""

from typing import Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct

from lanloom.api.meta import Object

T = TypeVar("T", bound=Object)


class Column(Struct, frozen=True):
    """A printer column of a CRD: what `kubectl get` shows. `priority` 1 shows only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


class Resource(Struct, Generic[T], frozen=True, kw_only=True):
    """A served kind. `group` is empty for the core group; `required` are fields that its objects can't be without."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool
    short_names: tuple[str, ...] = ()
    status: bool = False
    required: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind in lower case, the singular name of every resource here."""
        return self.kind.lower()

    @property
    def full_name(self) -> str:
        """`plural.group`, which is also the name of the resource's CRD."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path below the server's root, quoted.

        An empty namespace means all namespaces (or cluster scope).
        """
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


READY_PATH = '.status.conditions[?(@.type=="ready")].status'
L3_READY_PATH = '.status.conditions[?(@.type=="L3Ready")].status'
REASON_PATH = '.status.conditions[?(@.status!="True")].reason'
MESSAGE_PATH = '.status.conditions[?(@.status!="True")].message'
"""Of the first condition that is not well: empty where all are."""

READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
READY_MESSAGE = Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1)
"""Columns of every kind with the condition `Ready`."""

AGE = Column("Age", ".metadata.creationTimestamp", "date")
