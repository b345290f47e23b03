"""Whether the object in a request is the one that the URL speaks of: type, name, namespace, version, uid."""

from lanloom.runtime.https import errors, fields
from lanloom_embedded.engine.reads import parse_version
from lanloom_embedded.engine.stored import Stored
from lanloom_embedded.kinds import Raw, ServedKind


def check_type(kind: ServedKind, body: Raw) -> None:
    """A new object must be of the URL's kind and version. Raises BadRequest, Invalid."""
    version, named = body.get("apiVersion"), body.get("kind")
    if not kind.builtin and not (version and named):
        missing = "kind" if version else "apiVersion"
        raise errors.BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {missing} is missing'
        )
    if (version or kind.api_version) != kind.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    _check_kind(kind, body)


def check_patched_type(kind: ServedKind, body: Raw) -> None:
    """A patch must not make another kind or version of an object. Raises BadRequest, Invalid."""
    version = body.get("apiVersion") or kind.api_version
    if kind.builtin or version == kind.api_version:
        check_type(kind, {**body, "apiVersion": version})
        return
    found = fields.invalid("apiVersion", version, f"must be {kind.api_version}")
    raise errors.invalid(kind.qualified_kind, _name_in(body), [found])


def _check_kind(kind: ServedKind, body: Raw) -> None:
    named = body.get("kind") or kind.kind
    if named == kind.kind:
        return
    if kind.builtin:
        raise errors.BadRequest(
            f'{named} in version "{kind.version}" cannot be handled as a {kind.kind}: it is another kind'
        )
    found = fields.invalid("kind", named, f"must be {kind.kind}")
    raise errors.invalid(f"{named}.{kind.group}", _name_in(body), [found])


def _name_in(body: Raw) -> str:
    """The name in a body whose types nobody has checked yet, for a message."""
    meta = body.get("metadata")
    return str(meta.get("name", "")) if isinstance(meta, dict) else ""


def unknown_fields(kind: ServedKind, paths: list[str]) -> errors.BadRequest:
    """The refusal of unknown fields where the client asked for strictness."""
    listed = ", ".join(f'unknown field "{path}"' for path in paths)
    return errors.BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {listed}"
    )


def place_new(kind: ServedKind, meta: Raw, namespace: str) -> None:
    """Put a new object into the namespace of the request. Raises BadRequest."""
    if meta.get("resourceVersion", "0") != "0":
        raise errors.BadRequest("resourceVersion should not be set on objects to be created")
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    _set_namespace(kind, meta, namespace)


def check_identity(kind: ServedKind, meta: Raw, namespace: str, name: str) -> None:
    """The object of an update must be the one that the URL names. Raises BadRequest."""
    if not name:
        raise errors.BadRequest("name must be provided")
    given = meta.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    place = meta.get("namespace", namespace)
    if kind.namespaced and place != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    _set_namespace(kind, meta, namespace)


def _set_namespace(kind: ServedKind, meta: Raw, namespace: str) -> None:
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def check_version(kind: ServedKind, meta: Raw, current: Stored) -> None:
    """Optimistic locking: a version that the request names must be the current one. Raises Conflict, BadRequest."""
    wanted = parse_version(meta.get("resourceVersion", ""))
    if wanted and wanted != current.version:
        raise errors.conflict(kind.resource, current.key.name)


def check_uid(kind: ServedKind, meta: Raw, current: Stored) -> None:
    """A replacement that names a uid is meant for that very object. Raises Conflict."""
    uid, actual = meta.get("uid"), current.meta().uid
    if uid and uid != actual:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict(kind.resource, current.key.name, why)


def require_version(kind: ServedKind, meta: Raw, name: str) -> None:
    """Some kinds are replaced only on a version that the client knows. Raises Invalid."""
    if not parse_version(meta.get("resourceVersion", "")):
        found = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(kind.resource, name, [found])
