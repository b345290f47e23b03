"""Executes the actions that were decided for a DummyClusterNetwork, one after the other.

Each action may be the last: all of them may be repeated, and each leaves a state from which the next reconcile goes on.
"""

from random import Random

import structlog

from lanloom.api.core import ObjectReference
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.features.dummy.rules.model import is_ours
from lanloom.features.dummy.rules.observed import (
    Action,
    Change,
    Create,
    Delete,
    Failure,
)
from lanloom.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
)
from lanloom.kube.events import Recorder
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.kube.queue import backoff

log = structlog.get_logger(__name__)


class ActionDenied(Exception):
    """The API server does not let us; somebody has to do something about it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ActionExecutor:
    """The API server, as what is written to."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self.recorder = recorder

    async def act(self, about: ObjectReference, uid: str, actions: tuple[Action, ...]) -> None:
        """Carries the actions out, for the network `about` of that uid.

        Stops at the first that fails. Raises ActionRefused, or a KubeError where another try may help.
        """
        for action in actions:
            try:
                await self._do(action, uid)
            except (Conflict, ServerError):
                raise
            except ApiError as error:
                raise ActionDenied(_failure(action, error)) from error
            log.info(
                "dummy-network-action",
                network=about.name,
                action=type(action).__name__,
                kind=action.resource.kind,
                object=str(action.key),
            )
            if action.event is not None:
                await self.recorder.record(about, (action.event,))

    async def _do(self, action: Action, uid: str) -> None:
        match action:
            case Create():
                await self._create(action, uid)
            case Change(resource=resource, key=key, patch=patch):
                with ignore_not_found(key.name):
                    await self._client.patch(resource, key.name, patch, key.namespace)
            case Delete():
                with ignore_not_found(action.key.name):
                    await self._delete(action)

    async def _create(self, action: Create, uid: str) -> None:
        """Of a ClusterNetwork it does not matter whose it is; anything else must be the network's own."""
        try:
            await self._client.create(action.resource, action.body, action.key.namespace)
        except AlreadyExists:
            if action.resource is CLUSTER_NETWORKS:
                return
            current = await self._client.get(action.resource, action.key.name, action.key.namespace)
            if not is_ours(current.metadata, uid):
                raise ActionDenied(_in_the_way(action)) from None

    async def _delete(self, action: Delete) -> None:
        key = action.key
        try:
            await self._client.delete(
                action.resource, key.name, key.namespace, uid=action.uid, resource_version=action.version
            )
        except (Conflict, NotFound, ServerError):
            raise
        except ApiError as error:
            if not action.or_release:
                raise
            log.info("dummy-object-left", kind=action.resource.kind, object=str(key), error=str(error))
            await self._release(action)

    async def _release(self, action: Delete) -> None:
        """Leaves an object to those who keep it from being deleted."""
        key = action.key
        meta = (await self._client.get(action.resource, key.name, key.namespace)).metadata
        if meta.uid == action.uid:
            patch = {"metadata": {"resourceVersion": meta.resource_version, "labels": {UID_LABEL: None}}}
            await self._client.patch(action.resource, key.name, patch, key.namespace)


def _failure(action: Action, error: ApiError) -> Failure:
    kind, key = action.resource.kind, action.key
    if isinstance(action, Create) and isinstance(error, NotFound):
        what = f"the {kind} {key} can't be created: namespace {key.namespace} or the kind does not exist ({error})"
        return Failure(action.resource.plural, what)
    verb = {Create: "created", Change: "changed", Delete: "deleted"}[type(action)]
    return Failure(action.resource.plural, f"the {kind} {key} can't be {verb}: {error}")


def _in_the_way(action: Create) -> Failure:
    what = f"{action.resource.kind} {action.key} exists and was not created for this network"
    return Failure(action.resource.plural, f"{what}; delete it", conflict=True)


_FIRST, _LONGEST = 1.0, 60.0


class Retries:
    """The next try of each key: seconds that double from one to a minute, less up to half at random."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._failures: dict[str, int] = {}

    def next(self, key: str) -> float:
        """Seconds until the next try, after one more failure."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return backoff(count, self._rng, first=_FIRST, cap=_LONGEST)

    def forget(self, key: str) -> None:
        """It went well."""
        self._failures.pop(key, None)
