"""Kubernetes' own kinds that the server serves, with what the real server does about their objects.

`BUILTINS` are the kinds with schemas, read from `kinds.yaml`; `DEFINITIONS` are the schemas that all groups share in
OpenAPI. `default_builtin` fills in what is absent, `prune_builtin` removes what is unknown and `validate_builtin`
refuses what breaks a rule. What such an object then does (a pod that runs, a deployment that makes pods) is not this
server's business.
"""

from functools import cache
from importlib import resources

import yaml
from msgspec import convert

from lanloom.runtime.https.fields import FieldError
from lanloom_embedded.builtin.defaults import fill_in
from lanloom_embedded.builtin.definitions import places_of_rules, prune_schemas, schema_types
from lanloom_embedded.builtin.rules import broken_rules
from lanloom_embedded.kinds import GroupPlural, Raw, ServedKind
from lanloom_embedded.schema import CompiledSchema

__all__ = [
    "BUILTINS",
    "DEFINITIONS",
    "default_builtin",
    "definition_types",
    "places_of_rules",
    "prune_builtin",
    "validate_builtin",
]

_DATA: Raw = yaml.load((resources.files(__package__) / "kinds.yaml").read_bytes(), Loader=yaml.CSafeLoader)

BUILTINS: tuple[ServedKind, ...] = tuple(
    convert(kind | {"builtin": True}, ServedKind) for kind in _DATA["kinds"]
)
DEFINITIONS: dict[str, Raw] = _DATA["definitions"]

_CRDS = GroupPlural("apiextensions.k8s.io", "customresourcedefinitions")
_SCHEMAS = {kind.key: kind.schema for kind in BUILTINS if kind.schema is not None}


@cache
def _compiled(key: GroupPlural) -> CompiledSchema:
    return CompiledSchema(_SCHEMAS[key])


def prune_builtin(kind: ServedKind, obj: Raw) -> list[str]:
    """Remove unknown fields from an object in place and return their paths."""
    removed = _compiled(kind.key).prune(obj)
    return removed + prune_schemas(obj) if kind.key == _CRDS else removed


def default_builtin(kind: ServedKind, obj: Raw) -> None:
    """Fill in what is absent, in place. It does so only once: what is there stays."""
    fill_in(kind.key, obj)
    _compiled(kind.key).default(obj)


def validate_builtin(kind: ServedKind, obj: Raw, old: Raw | None) -> list[FieldError]:
    """Return the rules that an object breaks, metadata aside; `old` is None when it is new."""
    return _compiled(kind.key).validate(obj) or broken_rules(kind.key, obj, old)


def definition_types(kind: ServedKind, crd: Raw) -> list[FieldError]:
    """Return the values of wrong types in a CRD, those of its schemas among them."""
    found = [each for each in _compiled(kind.key).validate(crd) if each.type == "FieldValueTypeInvalid"]
    return found or list(schema_types(crd))
