"""What a kubelet makes of a pod: processes on its node or a network of its own, and the status that it reports."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from lanloom.api.meta import Condition, rfc3339
from lanloom.api.multus import NETWORK_STATUS
from lanloom.kube.conditions import find, is_true
from lanloom_lab.workloads.containers import (
    Ended,
    RunningContainer,
    State,
    directory,
    volume_directory,
)
from lanloom_lab.workloads.hosts import Hosts
from lanloom_lab.workloads.pods import Container, Pod
from lanloom_lab.workloads.sandboxes import Sandbox

Raw = dict[str, Any]

OURS = ("Initialized", "ContainersReady", "Ready")
"""The conditions that a kubelet keeps; others belong to others."""


def pod_status(
    pod: Pod, states: Sequence[State], *, began: float, host: str, addresses: Iterable[str], now: float
) -> Raw:
    """Return what is to be written.

    `states` are those of the containers, in order; times in seconds since the epoch.
    """
    ready = all(state.ready for state in states)
    started = all(state.began is not None or state.restarts for state in states)
    ips = [{"ip": address} for address in addresses]
    return {
        "phase": _ended_phase(states) or ("Running" if started else "Pending"),
        "conditions": conditions(pod, ready=ready, now=now),
        "containerStatuses": [
            _container(pod, spec, state) for spec, state in zip(pod.spec.containers, states, strict=True)
        ],
        "startTime": rfc3339(began),
        "hostIP": host,
        **({"podIP": ips[0]["ip"], "podIPs": ips} if ips else {}),
    }


def _ended_phase(states: Sequence[State]) -> str:
    """Return the phase of a pod whose containers have all ended for good; empty for any other."""
    ends = [state.terminated.status for state in states if state.terminated is not None]
    if not ends or len(ends) < len(states):
        return ""
    return "Failed" if any(ends) else "Succeeded"


def conditions(pod: Pod, *, ready: bool, now: float) -> list[Raw]:
    """Return the pod's conditions with a kubelet's own."""
    wanted = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
    others = [_condition(item) for item in pod.status.conditions if item.type not in OURS]
    return others + [_turned(pod, name, value, now) for name, value in wanted.items()]


def lost(pod: Pod, now: float) -> list[Raw] | None:
    """Return the conditions of a pod whose node is off, as the controller of nodes writes them; None if they are so."""
    if not is_true(pod.status.conditions, "Ready"):
        return None
    others = [_condition(item) for item in pod.status.conditions if item.type != "Ready"]
    return [*others, _turned(pod, "Ready", False, now)]


def _turned(pod: Pod, name: str, value: bool, now: float) -> Raw:
    old = find(pod.status.conditions, name)
    word = "True" if value else "False"
    if old is not None and old.status == word:
        return _condition(old)
    reason = {} if value else {"reason": "ContainersNotReady"}
    return {"type": name, "status": word, "lastTransitionTime": rfc3339(now), **reason}


def _condition(item: Condition) -> Raw:
    known = {
        "type": item.type,
        "status": item.status,
        "reason": item.reason,
        "message": item.message,
        "lastTransitionTime": item.last_transition_time,
    }
    return {name: value for name, value in known.items() if value}


def _container(pod: Pod, spec: Container, state: State) -> Raw:
    identity = f"lab://{pod.metadata.uid}/{spec.name}/{state.restarts}"
    return {
        "name": spec.name,
        "image": spec.image,
        "imageID": spec.image,
        "ready": state.ready,
        "started": state.began is not None,
        "restartCount": state.restarts,
        "state": _now(state),
        "lastState": {"terminated": _terminated(state.last)} if state.last else {},
        **({"containerID": identity} if state.began is not None else {}),
    }


def _now(state: State) -> Raw:
    if state.terminated is not None:
        return {"terminated": _terminated(state.terminated)}
    if state.began is not None:
        return {"running": {"startedAt": rfc3339(state.began)}}
    message = {"message": state.message} if state.message else {}
    return {"waiting": {"reason": state.waiting, **message}}


def _terminated(ended: Ended) -> Raw:
    return {
        "exitCode": ended.status,
        "reason": "Error" if ended.status else "Completed",
        "message": ended.message,
        "startedAt": rfc3339(ended.began),
        "finishedAt": rfc3339(ended.ended),
    }


class Run(Protocol):
    """A pod on its node, for one boot of it. Every method that waits raises LabError where the node does not run."""

    async def begin(self) -> None:
        """Make it; called again after a failure. Raises SandboxFailed."""
        ...

    async def end(self, *, at_once: bool) -> bool:
        """End it, gently or not; return whether it is gone. If not, its end is reported."""
        ...

    async def abandon(self) -> None:
        """Let go of it: its node is off."""
        ...

    def states(self) -> tuple[State, ...]:
        """Return how the pod's containers are, in order, after it was made."""
        ...

    def addresses(self) -> Iterable[str]:
        """Return the pod's addresses."""
        ...

    def annotations(self) -> dict[str, str]:
        """Return what is to be written onto the pod."""
        ...


class HostRun:
    """A pod that has its node's network, or the containers of one that has the network `netns`.

    Only containers of Lanloom's image run; the others are said to.
    """

    def __init__(
        self,
        hosts: Hosts,
        pod: Pod,
        address: str,
        *,
        image: str,
        log: Path,
        now: Callable[[], float],
        changed: Callable[[], None],
        netns: str = "",
    ) -> None:
        self._hosts = hosts
        self._pod = pod
        self._netns = netns
        self._address = address
        self._image = image
        self._log = log
        self._now = now
        self._changed = changed
        self._began = now()
        self._containers: dict[str, RunningContainer] = {}

    async def begin(self) -> None:
        """As the protocol says."""
        wanted = [item for item in self._pod.spec.containers if item.image == self._image]
        names = (volume.name for volume in self._pod.spec.volumes if volume.empty_dir is not None)
        paths = [volume_directory(self._pod.metadata.uid, name) for name in names]
        if wanted and paths:
            await self._hosts.run(self._pod.spec.node_name, "mkdir", "-p", *paths)
        self._containers = {item.name: self._start(item) for item in wanted}

    def _start(self, item: Container) -> RunningContainer:
        return RunningContainer(
            self._hosts, self._pod, item, self._log, self._now, self._changed, netns=self._netns
        )

    async def end(self, *, at_once: bool) -> bool:
        """As the protocol says."""
        for container in self._containers.values():
            if not container.is_gone:
                await container.signal("kill" if at_once else "term")
        if not all(container.is_gone for container in self._containers.values()):
            return False
        if self._containers:
            await self._hosts.run(self._pod.spec.node_name, "rm", "-rf", directory(self._pod.metadata.uid))
        self._log.unlink(missing_ok=True)
        return True

    async def abandon(self) -> None:
        """As the protocol says."""
        for container in self._containers.values():
            await container.abandon()

    def states(self) -> tuple[State, ...]:
        """As the protocol says."""
        said = State(began=self._began, ready=True)
        running = (self._containers.get(item.name) for item in self._pod.spec.containers)
        return tuple(said if item is None else item.state for item in running)

    def addresses(self) -> Iterable[str]:
        """As the protocol says."""
        return (self._address,)

    def annotations(self) -> dict[str, str]:
        """As the protocol says."""
        return {}


class NetworkRun:
    """A pod with a network of its own, in which `containers` run."""

    def __init__(self, sandbox: Callable[[int], Sandbox], containers: HostRun) -> None:
        self._new = sandbox
        self._number = 0
        self._sandbox = sandbox(0)
        self._containers = containers

    async def begin(self) -> None:
        """As the protocol says."""
        self._number += 1
        self._sandbox = self._new(self._number)
        await self._sandbox.make()
        await self._containers.begin()

    async def end(self, *, at_once: bool) -> bool:
        """As the protocol says."""
        if not await self._containers.end(at_once=at_once):
            return False
        await self._sandbox.remove()
        return True

    async def abandon(self) -> None:
        """As the protocol says: the namespace went with the node."""
        await self._containers.abandon()

    def states(self) -> tuple[State, ...]:
        """As the protocol says."""
        return self._containers.states()

    def addresses(self) -> Iterable[str]:
        """As the protocol says."""
        return self._sandbox.addresses

    def annotations(self) -> dict[str, str]:
        """As the protocol says."""
        status = self._sandbox.network_status
        return {NETWORK_STATUS: status} if status else {}
