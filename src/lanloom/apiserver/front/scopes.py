"""Which addresses and verbs a kind understands.

Built-in and custom kinds refuse what they don't understand in different words, because in the real server different
programs answer for them.
"""

from lanloom.apiserver import errors
from lanloom.apiserver.front.requests import NoSuchPath, Target
from lanloom.apiserver.kinds import NAMESPACES, ServedKind

_SUBRESOURCE_VERBS = ("get", "patch", "update")
_NAMELESS_VERBS = ("create", "deletecollection", "list", "watch")


def check_address(kind: ServedKind, target: Target, verb: str) -> None:
    """Raises NotFound, MethodNotAllowed or NoSuchPath for what the kind doesn't understand."""
    if kind.builtin:
        _check_builtin(kind, target, verb)
    else:
        _check_custom(kind, target, verb)


def _check_builtin(kind: ServedKind, target: Target, verb: str) -> None:
    if target.subresource:
        if not kind.has_subresource(target.subresource):
            raise errors.no_such_resource()
        if verb not in _SUBRESOURCE_VERBS:
            raise errors.wrong_method()
        return
    everywhere = kind.namespaced and not target.namespace
    if (everywhere and target.name) or _is_astray(kind, target):
        raise errors.no_such_resource()
    if everywhere and verb in ("create", "deletecollection"):
        raise errors.wrong_method()
    if verb not in kind.verbs or bool(target.name) is (verb in _NAMELESS_VERBS):
        raise errors.wrong_method()


def _check_custom(kind: ServedKind, target: Target, verb: str) -> None:
    everywhere = kind.namespaced and not target.namespace
    if (everywhere and verb not in ("list", "watch")) or _is_astray(kind, target):
        raise NoSuchPath
    if verb == "update" and not target.name:
        raise errors.BadRequest("name must be provided")
    if target.subresource:
        if not kind.has_subresource(target.subresource):
            raise errors.not_found(kind.resource, target.name)
        if verb not in _SUBRESOURCE_VERBS:
            raise errors.method_not_allowed(kind.resource, verb)


def _is_astray(kind: ServedKind, target: Target) -> bool:
    """Whether a cluster-scoped kind is asked for in a namespace."""
    return bool(target.namespace) and not kind.namespaced and kind.key != NAMESPACES
