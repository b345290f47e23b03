"""Reconcile one DummyClusterNetwork at a time: decide, write its status, record Events, act; in that order.

The status comes first, so that nothing is taken away before it says so; it is written on the version that the decision
rests on, so that a manager with an older view decides nothing. Actions are executed one after the other. Each may be
the last: all of them may be repeated, and each leaves a state from which the next reconcile goes on.

`Orphans` reconciles what was left by networks whose finalizer was removed by force. It is taken away with the same
care. There is no status any more, so what blocks it is recorded as Events of the NADs.
"""

from random import Random

import structlog
from msgspec.structs import replace

from lanloom.api.core import EventDraft, ObjectReference
from lanloom.api.dummy import (
    DUMMY_CLUSTER_NETWORKS,
    NAME_ANNOTATION,
    UID_LABEL,
    DummyClusterNetwork,
    DummyClusterNetworkStatus,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.meta import Key, Object, ObjectMeta
from lanloom.api.multus import NADS
from lanloom.features.dummy.reader import BY_UID, ClusterReader, DummyInformers
from lanloom.features.dummy.rules.lifecycle import decide, on_read_error
from lanloom.features.dummy.rules.model import is_ours
from lanloom.features.dummy.rules.observed import (
    Action,
    Change,
    Create,
    Decision,
    Delete,
    Failure,
    Made,
    Observed,
)
from lanloom.features.dummy.rules.teardown import Teardown, teardown
from lanloom.kube.controller import backoff
from lanloom.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
)
from lanloom.kube.events import Recorder, reference
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import REFUSED, text_of
from lanloom.kube.refusals import Failing

log = structlog.get_logger(__name__)


class ActionDenied(Exception):
    """The API server refuses it; an operator has to act."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ActionDelayed(ServerError):
    """An action that the API server could not carry out; another try may help."""

    def __init__(self, failure: Failure, error: ServerError) -> None:
        super().__init__(error.code, error.reason, error.message, error.status)
        self.failure = failure


class ActionExecutor:
    """The API server, as what is written to."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self.recorder = recorder

    async def act(self, about: ObjectReference, uid: str, actions: tuple[Action, ...]) -> None:
        """Carry the actions out, for the network `about` of that uid.

        Stops at the first that fails. Raises ActionRefused, or a KubeError where another try may help.
        """
        for action in actions:
            try:
                await self._do(action, uid)
            except Conflict:
                raise
            except ServerError as error:
                raise ActionDelayed(_failure(action, error), error) from error
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
        """Create an object that must be the network's own. A ClusterNetwork may have any owner."""
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
        """Leave an object to those who keep it from being deleted."""
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
        """Return seconds until the next try, after one more failure."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return backoff(count, self._rng, first=_FIRST, cap=_LONGEST)

    def forget(self, key: str) -> None:
        """Forget the failures of an object: it went well."""
        self._failures.pop(key, None)


class Networks:
    """The DummyClusterNetworks. What was refused is forgotten with the process: it is tried once more then."""

    def __init__(
        self,
        client: Client,
        informers: DummyInformers,
        reader: ClusterReader,
        executor: ActionExecutor,
        rng: Random,
    ) -> None:
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._reader = reader
        self._executor = executor
        self._written = informers.dcns.mutations()
        self._uids: dict[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._retries = Retries(rng)

    async def reconcile(self, name: str) -> float | None:
        """Do what is to be done for a network.

        It returns in how many seconds to look again, None for when something happens.
        """
        dcn = self._written.get(Key("", name))
        if dcn is None:
            self._forget(name)
            return None
        self._uids[name] = dcn.metadata.uid
        observed = self._reader.of(dcn, self._failures.get(dcn.metadata.uid))
        with ignore_not_found(name):
            if _is_about_to_be_made(dcn, observed):
                observed = replace(observed, ranges=await self._reader.ranges(observed))
            return await self._reconcile(observed)
        return None

    async def _reconcile(self, observed: Observed) -> float | None:
        uid, name = observed.dcn.metadata.uid, observed.dcn.metadata.name
        decision = decide(observed)
        while decision.live_read:
            try:
                live = await self._reader.live_read(observed.dcn, decision.live_read)
            except KubeError as error:
                log.warning("dummy-network-not-read", network=name, error=str(error))
                await self._report(observed.dcn, on_read_error(observed, str(error)))
                return self._retries.next(uid)
            observed = replace(observed, live=live)
            decision = decide(observed)
        dcn = await self._report(observed.dcn, decision)
        try:
            await self._executor.act(reference(DUMMY_CLUSTER_NETWORKS, dcn), uid, decision.actions)
        except ActionDenied as refused:
            log.warning("dummy-network-action-refused", network=name, error=str(refused))
            self._failures[uid] = refused.failure
            await self._report(dcn, decide(replace(observed, dcn=dcn, failure=refused.failure)))
            return self._retries.next(uid)
        self._failures.pop(uid, None)
        self._retries.forget(uid)
        return decision.wait

    async def refused(self, name: str, error: ApiError) -> None:
        """Implement Refusals: an action that was put off again and again counts as rejected. Raises KubeError."""
        dcn = self._written.get(Key("", name))
        if dcn is None:
            return
        about = reference(DUMMY_CLUSTER_NETWORKS, dcn)
        await self._executor.recorder.event(about, "Warning", REFUSED, text_of(error))
        if isinstance(error, ActionDelayed):
            self._failures[dcn.metadata.uid] = error.failure
            decision = decide(self._reader.of(dcn, error.failure))
            if not decision.live_read:
                await self._report(dcn, decision)

    async def accepted(self, name: str) -> None:
        """Implement Refusals; the reconcile that went well has forgotten the failure."""

    async def _report(self, dcn: DummyClusterNetwork, decision: Decision) -> DummyClusterNetwork:
        """Write the status if it differs, and tell of it; return the network as it is then. Raises KubeError."""
        if decision.status != dcn.status:
            dcn = await self._write(dcn, decision.status)
        await self._executor.recorder.record(reference(DUMMY_CLUSTER_NETWORKS, dcn), decision.events)
        return dcn

    async def _write(
        self, dcn: DummyClusterNetwork, status: DummyClusterNetworkStatus
    ) -> DummyClusterNetwork:
        meta = dcn.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": struct_diff(dcn.status, status),
        }
        written = self._written.add(await self._statuses.patch(DUMMY_CLUSTER_NETWORKS, meta.name, patch))
        log.info("dummy-network", network=meta.name, phase=status.phase, message=status.message)
        return written

    def _forget(self, name: str) -> None:
        uid = self._uids.pop(name, "")
        self._failures.pop(uid, None)
        self._retries.forget(uid)


def _is_about_to_be_made(dcn: DummyClusterNetwork, observed: Observed) -> bool:
    """Return whether it is to be decided if a subnet is free."""
    return not dcn.metadata.is_deleting and bool(dcn.spec.subnet) and not observed.made.nads


class Orphans:
    """The uids of networks that are gone, of which something is left."""

    def __init__(
        self, informers: DummyInformers, reader: ClusterReader, executor: ActionExecutor, rng: Random
    ) -> None:
        self._informers = informers
        self._reader = reader
        self._executor = executor
        self._failing: Failing[str] = Failing()
        self._reported: dict[str, str] = {}
        self._retries = Retries(rng)

    def is_orphaned(self, uid: str) -> bool:
        """Return whether no network of that uid is known; one that the watch has not brought yet is none, too."""
        return bool(uid) and not self._informers.dcns.store.by(BY_UID, uid)

    async def reconcile(self, uid: str) -> float | None:
        """Take the next step; return in how many seconds to look again, None for when something happens."""
        made = self._reader.orphaned(uid)
        if not self.is_orphaned(uid) or not _every(made):
            self._forget(uid)
            return None
        try:
            if await self._reader.exists(uid):
                return None
            observed = self._reader.of(_deleted_network(uid, made))
            observed, step = await self._next(observed)
            await self._record(observed, step)
            await self._executor.act(reference(DUMMY_CLUSTER_NETWORKS, observed.dcn), uid, step.actions)
        except (KubeError, ActionDenied) as error:
            log.warning("dummy-orphan-kept", uid=uid, error=str(error))
            if isinstance(error, ApiError) and self._failing.is_refused(uid, error):
                for nad in made.nads:
                    about = reference(NADS, nad)
                    await self._executor.recorder.event(about, "Warning", REFUSED, text_of(error))
            return self._retries.next(uid)
        self._retries.forget(uid)
        return step.wait

    async def _next(self, observed: Observed) -> tuple[Observed, Teardown]:
        step = teardown(observed, committed=True, removed=False)
        while step.live_read:
            observed = replace(observed, live=await self._reader.live_read(observed.dcn, step.live_read))
            step = teardown(observed, committed=True, removed=False)
        return observed, step

    async def _record(self, observed: Observed, step: Teardown) -> None:
        """Say what is waited for, once; by Events where there is a NAD that keeps its users."""
        uid, name = observed.dcn.metadata.uid, observed.dcn.metadata.name
        if not step.message or self._reported.get(uid) == step.message:
            return
        self._reported[uid] = step.message
        log.warning("dummy-orphan", uid=uid, network=name, stage=step.stage, message=step.message)
        if step.stage not in ("users", "requests"):
            return
        text = f"DummyClusterNetwork {name}, its owner, was removed by force; {step.message}"
        for nad in observed.made.nads:
            await self._executor.recorder.record(
                reference(NADS, nad), (EventDraft("Warning", "Orphaned", text),)
            )

    def _forget(self, uid: str) -> None:
        self._reported.pop(uid, None)
        self._failing.end(uid)
        self._retries.forget(uid)


def _every(made: Made) -> tuple[Object, ...]:
    return (*made.nads, *made.daemon_sets, *made.networks, *made.cluster_networks)


def _deleted_network(uid: str, made: Made) -> DummyClusterNetwork:
    """Return the network as far as it is still known: its name, and of its spec nothing."""
    names = (item.metadata.annotations.get(NAME_ANNOTATION, "") for item in _every(made))
    return DummyClusterNetwork(metadata=ObjectMeta(name=next(filter(None, names), uid), uid=uid))
