"""A request taken apart: which verb on which resource, or which other address.

The rules are those of the real server's RequestInfo; authorization and handlers both go by its result.
"""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from lanloom.apiserver import errors

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
}


class NoSuchPath(Exception):
    """Nothing is served at the address."""


class Target(Struct, frozen=True):
    """What a path names. Without `plural` it is no resource but a document of `group` and `version`, or other."""

    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""


@lru_cache(4096)
def target_of(path: str) -> Target:
    """Takes a path apart."""
    parts = [unquote(part) for part in path.split("/")[1:]]
    while parts and not parts[-1]:
        parts.pop()
    if parts[:1] == ["api"] and len(parts) >= 2:
        return _resource_target(path, "", parts[1], parts[2:])
    if parts[:1] == ["apis"] and len(parts) >= 3:
        return _resource_target(path, parts[1], parts[2], parts[3:])
    return Target(path, group=parts[1] if parts[:1] == ["apis"] and len(parts) == 2 else "")


def _resource_target(path: str, group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            rest = rest[2:]
    plural, name, *deeper = (*rest, "", "")[: max(len(rest), 2)]
    return Target(path, group, version, namespace, plural, name, "/".join(deeper))


@lru_cache(4096)
def query_of(query: bytes) -> Mapping[str, str]:
    """The parameters of a query; of repeated ones the first counts. Don't change the result."""
    result: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        result.setdefault(name, value)
    return result


def is_true(text: str) -> bool:
    """A boolean parameter, as Go's strconv and the API machinery read it: present and not false."""
    return text.lower() not in ("", "false", "0")


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """The API's verb for a request on a resource. Raises MethodNotAllowed."""
    verb = _VERBS.get(method)
    if verb is None:
        raise errors.wrong_method()
    if target.name:
        return verb
    if verb == "get" and is_true(query.get("watch", "")):
        return "watch"
    return {"get": "list", "delete": "deletecollection"}.get(verb, verb)


def integer(query: Mapping[str, str], name: str) -> int:
    """A number among the parameters, 0 if it isn't there. Raises BadRequest."""
    text = query.get(name, "")
    try:
        return int(text or 0)
    except ValueError:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
