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
WRITE = ["create", "update", "patch", "delete", "deletecollection"]


class Access(Struct, frozen=True, kw_only=True):
    """The rights of one process for a feature.

    `cluster` applies everywhere, `namespaces` in one namespace each. `definitions` are the kinds whose CRDs the process
    reads, to tell an absent kind from one that is not served yet.
    """

    cluster: tuple[Rule, ...] = ()
    namespaces: Mapping[str, tuple[Rule, ...]] = {}
    definitions: tuple[Resource[Any], ...] = ()


class Rights(Struct, frozen=True, kw_only=True):
    """The kinds of a feature, and the rights of its processes.

    `own` are Lanloom's kinds. `foreign` are kinds of other projects, installed where a cluster lacks them. Of both,
    users with Kubernetes' role `view` in a namespace read those that are in namespaces. Users with the roles `edit` and
    `admin` write the kinds of these fields.
    """

    own: tuple[Resource[Any], ...] = ()
    foreign: tuple[Resource[Any], ...] = ()
    manager: Access = Access()
    agent: Access = Access()
    edit: tuple[Resource[Any], ...] = ()
    admin: tuple[Resource[Any], ...] = ()
