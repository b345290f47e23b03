"""The kinds that the API server serves: one `ServedKind` for each version of each resource.

Built-in kinds and custom ones have the same form, so that discovery, OpenAPI, validation and storage need
not know which is which. Objects of all versions of a resource are stored together.
"""

from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct

Raw = dict[str, Any]

Verb = Literal["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

ALL_VERBS: tuple[Verb, ...] = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class GroupPlural(NamedTuple):
    """The name of a resource in storage, whatever the version."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


CRDS = GroupPlural("apiextensions.k8s.io", "customresourcedefinitions")
NAMESPACES = GroupPlural("", "namespaces")


class ServedKind(Struct, frozen=True, kw_only=True, dict=True):
    """One resource in one version.

    `group` is empty for the core group. `schema` is the openAPIV3Schema (None: anything goes, as for built-in
    kinds that are checked by code). `has_status` says that the status subresource is apart. `columns` are
    additionalPrinterColumns as on the wire. `storage` is False for kinds that are answered and never kept
    (access reviews). `deprecated` carries the warning of a deprecated version.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    list_kind: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[Verb, ...] = ALL_VERBS
    schema: Raw | None = None
    has_status: bool = False
    columns: tuple[Raw, ...] = ()
    builtin: bool = False
    storage: bool = True
    deprecated: str = ""

    @cached_property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def key(self) -> GroupPlural:
        """The name of the resource in storage."""
        return GroupPlural(self.group, self.plural)

    @cached_property
    def resource(self) -> str:
        """`plural.group`, as error messages name the resource."""
        return str(self.key)

    @cached_property
    def qualified_kind(self) -> str:
        """`Kind.group`, as error messages name the kind."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def has_subresource(self, name: str) -> bool:
        """Return whether the resource has this path below its objects."""
        return (name == "status" and self.has_status) or (name == "finalize" and self.key == NAMESPACES)

    @property
    def list_name(self) -> str:
        """The kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        """The singular name, by default the kind in lower case."""
        return self.singular or self.kind.lower()
