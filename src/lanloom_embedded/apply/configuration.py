"""What an apply asks for: the configuration that a client sends, without what it can't own."""

from lanloom.runtime.https import errors
from lanloom_embedded.apply.typed import check_declared, of_object
from lanloom_embedded.kinds import Raw, ServedKind

_ALWAYS = ("apiVersion", "kind", "metadata")


def configuration(kind: ServedKind, body: Raw, namespace: str, name: str, subresource: str) -> Raw:
    """Return the configuration of an object or of its status. Raises BadRequest, StatusError.

    An object is applied without its status, and its status without the rest.
    """
    given = body.get("metadata")
    given = given if isinstance(given, dict) else {}
    if given.get("managedFields"):
        raise errors.BadRequest("metadata.managedFields must be nil")
    if kind.schema is not None and not kind.builtin:
        title = (
            f"failed to create typed patch object ({namespace}/{name}; {kind.api_version}, Kind={kind.kind})"
        )
        check_declared(of_object(kind.schema), {key: body[key] for key in body if key not in _ALWAYS}, title)
    meta = {key: value for key, value in given.items() if value is not None}
    meta = {**meta, "name": given.get("name") or name}
    if kind.namespaced:
        meta.setdefault("namespace", namespace)
    if subresource:
        meta = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}
        wanted = {"status": body["status"]} if "status" in body else {}
    else:
        without = (*_ALWAYS, "status") if kind.has_status else _ALWAYS
        wanted = {key: value for key, value in body.items() if key not in without}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **wanted}
