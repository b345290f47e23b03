"""Writing the status of an object, whether or not its kind has a status of its own in the API.

A CustomResourceDefinition may have a status subresource, or none: then the status is a field like any other. The same
kind may have either, by whose definition the cluster has, and may change while we run. A kube-apiserver words a missing
subresource like a missing object, and drops a status that is written to the object where there is a subresource.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import structlog
from msgspec import to_builtins

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.mergediff import merge
from lanloom.kube.ports import Client

T = TypeVar("T", bound=Object)

log = structlog.get_logger(__name__)


class StatusWriter:
    """Patches statuses through one client, and remembers which kinds have no subresource."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._without: set[str] = set()

    async def patch(
        self, resource: Resource[T], name: str, patch: Mapping[str, Any], namespace: str = ""
    ) -> T:
        """A merge patch with `status` in it. Raises NotFound only where the object is gone, or its kind not served."""
        if resource.full_name not in self._without:
            try:
                return await self._client.patch(resource, name, patch, namespace, subresource="status")
            except NotFound as error:
                if not error.is_of(name):
                    raise
            await self._client.get(resource, name, namespace)
            self._remember(resource)
        answer = await self._client.patch(resource, name, patch, namespace)
        if _holds(answer, patch):
            return answer
        # The definition has got a subresource meanwhile, or its schema has no place for what was written.
        again = dict(patch)
        if "metadata" in patch:
            again["metadata"] = {"resourceVersion": answer.metadata.resource_version}
        try:
            answer = await self._client.patch(resource, name, again, namespace, subresource="status")
        except NotFound as error:
            if not error.is_of(name):
                raise
            return answer
        self._without.discard(resource.full_name)
        return answer

    def _remember(self, resource: Resource[Any]) -> None:
        log.info(
            "status-is-no-subresource", resource=resource.full_name, instead="the object itself is patched"
        )
        self._without.add(resource.full_name)


def _holds(answer: Object, patch: Mapping[str, Any]) -> bool:
    """Whether the answer has the status that was asked for."""
    status = to_builtins(answer).get("status", {})
    return bool(merge(status, to_builtins(patch["status"])) == status)
