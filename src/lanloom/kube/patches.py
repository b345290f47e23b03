"""Objects are patched and never written back whole: the JSON merge patch between two values, and patches of statuses.

A CustomResourceDefinition may have a status subresource, or none: then the status is a field like any other. The same
kind may have either, by whose definition the cluster has, and may change while we run. A kube-apiserver words a missing
subresource like a missing object, and drops a status that is written to the object where there is a subresource.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import structlog
from msgspec import Struct, to_builtins

from lanloom.api.meta import Condition, Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

_STATUS = "status"


def merge_diff(old: Raw, new: Raw) -> Raw:
    """Return the RFC 7386 patch that turns `old` into `new`: changed members, and null for those that go.

    Empty if equal.
    """
    patch: Raw = dict.fromkeys(sorted(old.keys() - new.keys()))
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value:
            continue
        patch[key] = (
            merge_diff(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
        )
    return patch


def merge(old: Any, patch: Any) -> Any:
    """Return the value after an RFC 7386 patch."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def struct_diff(old: Struct, new: Struct) -> Raw:
    """Return the patch between two values as they are on the wire."""
    return merge_diff(to_builtins(old), to_builtins(new))


class StatusWriter:
    """Patches statuses through one client, and remembers which kinds have a subresource."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._with: dict[str, bool] = {}

    async def patch(
        self, resource: Resource[T], name: str, patch: Mapping[str, Any], namespace: str = ""
    ) -> T:
        """Return a merge patch with `status` in it.

        Raises NotFound only where the object is gone, or its kind not served.
        """

        async def send(subresource: str, before: T | None) -> T:
            again = dict(patch)
            if before is not None and "metadata" in patch:
                again["metadata"] = {"resourceVersion": before.metadata.resource_version}
            return await self._client.patch(resource, name, again, namespace, subresource=subresource)

        return await self._write(resource, Key(namespace, name), send, lambda answer: _holds(answer, patch))

    async def replace_conditions(
        self, resource: Resource[T], item: Any, conditions: tuple[Condition, ...]
    ) -> None:
        """Write the conditions of an object on the version that is known, unless it has them. Raises Conflict.

        A merge patch replaces the whole list, of which other writers have a part.
        """
        meta = item.metadata
        if conditions == item.status.conditions:
            return
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": to_builtins(conditions)},
        }
        await self.patch(resource, meta.name, patch, meta.namespace)

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        holds: Callable[[T], bool],
    ) -> T:
        """Apply a JSON patch of values below `/status`; `holds` tells whether the answer has what was asked for.

        The operations must not test the resourceVersion. Raises what `patch` raises, and Invalid as `Client.json_patch`
        does.
        """

        async def send(subresource: str, before: T | None) -> T:
            return await self._client.json_patch(
                resource, name, operations, namespace, subresource=subresource
            )

        return await self._write(resource, Key(namespace, name), send, holds)

    async def _write(
        self,
        resource: Resource[T],
        key: Key,
        send: Callable[[str, T | None], Awaitable[T]],
        holds: Callable[[T], bool],
    ) -> T:
        """Send to the subresource or to the object. `send` gets the object as an attempt that had no effect left it."""
        if self._with.get(resource.full_name, resource.status):
            try:
                return await send(_STATUS, None)
            except NotFound as error:
                if not error.is_of(key.name):
                    raise
            await self._client.get(resource, key.name, key.namespace)
            self._remember(resource, False)
        answer = await send("", None)
        if holds(answer):
            return answer
        # The definition has got a subresource meanwhile, or its schema has no place for what was written.
        try:
            answer = await send(_STATUS, answer)
        except NotFound as error:
            if not error.is_of(key.name):
                raise
            return answer
        self._remember(resource, True)
        return answer

    def _remember(self, resource: Resource[Any], has: bool) -> None:
        """Keep what the server showed, which is not what Lanloom's own definition says."""
        log.info("status-subresource", resource=resource.full_name, served=has)
        self._with[resource.full_name] = has


def _holds(answer: Object, patch: Mapping[str, Any]) -> bool:
    """Return whether the answer has the status that was asked for."""
    status = to_builtins(answer).get("status", {})
    return bool(merge(status, to_builtins(patch["status"])) == status)
