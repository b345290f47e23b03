"""The kinds of a feature, and the rights that its processes need."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from lanloom.api.resource import Resource

Rule = dict[str, Any]
"""A rule of a role, as RBAC has it."""

FOLLOW = ["list", "watch"]
READ = ["get", *FOLLOW]
MAKE = [*READ, "create", "patch", "delete"]


class Access(Struct, frozen=True, kw_only=True):
    """The rights of one process for a feature.

    `cluster` holds everywhere, `namespaces` in one namespace each. `definitions` are the kinds whose CRDs the process
    reads, to tell a kind that is absent from one that is not served at the moment.
    """

    cluster: tuple[Rule, ...] = ()
    namespaces: Mapping[str, tuple[Rule, ...]] = {}
    definitions: tuple[Resource[Any], ...] = ()


class Rights(Struct, frozen=True, kw_only=True):
    """The kinds of a feature, and what its processes may do.

    `own` are Lanloom's kinds. `foreign` are kinds of other projects, brought where a cluster does not have them.
    """

    own: tuple[Resource[Any], ...] = ()
    foreign: tuple[Resource[Any], ...] = ()
    manager: Access = Access()
    agent: Access = Access()
