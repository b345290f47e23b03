"""A container of a pod, in its node's network or the pod's: one process, kept running until its pod ends.

Its states are those that a kubelet reports. It is started again after it ended, later each time; every start has its
own mounts, and the pod's empty directories as they were left.
"""

import asyncio
import base64
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec import Struct

from lanloom_lab.errors import LabError
from lanloom_lab.workloads.hosts import ExecSession, Hosts
from lanloom_lab.workloads.pods import Container, Pod

log = structlog.get_logger(__name__)

SHIM = "/opt/lanloom/src/lanloom_lab/workloads/shim.sh"
"""Where a node sees it."""

ENTRYPOINT = ("python3", "-m", "lanloom")
"""What the image of Lanloom runs."""

PODS_DIRECTORY = "/run/pods"
"""Where a node keeps what is of its pods, by uid."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Before a container is started again; twice as long each time. A real kubelet waits ten times as long."""

GOOD_RUN = 60.0
"""Seconds after which a container counts as having worked: its next pause is the first one again."""

_NO_STATUS = 137
"""Of a container that went with its shim."""


class Ended(Struct, frozen=True):
    """How a run ended. Times in seconds since the epoch."""

    status: int
    message: str
    began: float
    ended: float


class State(Struct, frozen=True, kw_only=True):
    """How a container is: `began` is set while it runs, else `waiting` (a reason) and `message` say why it does not.

    One that is not started again is `terminated`.
    """

    began: float | None = None
    ready: bool = False
    waiting: str = "ContainerCreating"
    message: str = ""
    restarts: int = 0
    last: Ended | None = None
    terminated: Ended | None = None


class RunningContainer:
    """One container on a node. `changed` is called whenever `state` is another one, and when it has ended for good."""

    def __init__(
        self,
        hosts: Hosts,
        pod: Pod,
        spec: Container,
        log: Path,
        now: Callable[[], float],
        changed: Callable[[], None],
        netns: str = "",
    ) -> None:
        self.spec = spec
        self.state = State()
        self._hosts = hosts
        self._node = pod.spec.node_name
        self._once = pod.spec.restart_policy == "Never"
        self._command = shim_command(pod, spec, netns)
        self._log = log
        self._now = now
        self._changed = changed
        self._session: ExecSession | None = None
        self._failures = 0
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._live(), name=f"container-{spec.name}")
        self._task.add_done_callback(lambda _: changed())

    @property
    def is_gone(self) -> bool:
        """Whether it does not run and won't any more."""
        return self._task.done()

    async def signal(self, name: str) -> None:
        """Ask it to end (`term`) or make it (`kill`); it is not started again."""
        self._stopping.set()
        if self._session is not None:
            await self._session.send_line(name)

    async def abandon(self) -> None:
        """Let go of it, which kills it if its node runs still."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = loop.time()
            ended = await self._run()
            if self._once:
                self._become(State(waiting="", terminated=ended))
                return
            pause = FIRST_PAUSE if loop.time() - began > GOOD_RUN else pause
            self._become(self._backing_off(ended, pause))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    def _backing_off(self, ended: Ended, pause: float) -> State:
        message = f"back-off {pause:.0f}s restarting failed container={self.spec.name}"
        return State(
            waiting="CrashLoopBackOff", message=message, restarts=self.state.restarts + 1, last=ended
        )

    async def _run(self) -> Ended:
        began = self._now()
        status, message = _NO_STATUS, ""
        try:
            async with self._hosts.session(self._node, *self._command, log=self._log) as session:
                self._session = session
                if self._stopping.is_set():
                    return Ended(status, message, began, self._now())
                prober = asyncio.create_task(self._probe(session))
                try:
                    async for line in session.receive():
                        word, _, rest = line.partition(" ")
                        if word == "ended":
                            code, _, encoded = rest.partition(" ")
                            status, message = int(code), base64.b64decode(encoded).decode(errors="replace")
                            break
                        self._take(word)
                finally:
                    prober.cancel()
        except (LabError, OSError) as error:
            log.info("a container's node is away", container=self.spec.name, error=str(error))
            message = str(error)
        finally:
            self._session = None
        return Ended(status, message, began, self._now())

    def _take(self, word: str) -> None:
        """Take in what the shim says."""
        if word == "started":
            ready = self.spec.readiness_probe is None
            self._become(
                State(began=self._now(), ready=ready, restarts=self.state.restarts, last=self.state.last)
            )
        elif self.state.began is not None and word in ("ready", "unready"):
            self._note_probe(succeeded=word == "ready")

    def _note_probe(self, *, succeeded: bool) -> None:
        probe = self.spec.readiness_probe
        self._failures = 0 if succeeded else self._failures + 1
        if succeeded or (probe is not None and self._failures >= probe.failure_threshold):
            state = self.state
            self._become(State(began=state.began, ready=succeeded, restarts=state.restarts, last=state.last))

    async def _probe(self, session: ExecSession) -> None:
        probe = self.spec.readiness_probe
        if probe is None or probe.exec is None:
            return
        question = probe_line(probe.exec.command)
        while True:
            if self.state.began is not None:
                await session.send_line(question)
            await asyncio.sleep(probe.period_seconds)

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._changed()


def probe_line(command: tuple[str, ...]) -> str:
    """Return what the shim is asked for a probe. Whether there is a file it finds out without starting a program."""
    match command:
        case ("test" | "/usr/bin/test" | "/bin/test", "-e", path) if "\n" not in path:
            return f"look {path}"
    return f"probe {shlex.join(command)}"


def directory(uid: str) -> str:
    """Return where a node keeps what is of a pod."""
    return f"{PODS_DIRECTORY}/{uid}"


def shim_command(pod: Pod, spec: Container, netns: str = "") -> tuple[str, ...]:
    """Return the command line of a container's shim, in a network namespace of its node where one is named."""
    place = f"{directory(pod.metadata.uid)}/containers/{spec.name}"
    words = (*(spec.command or ENTRYPOINT), *spec.args)
    environment = (f"{item.name}={item.value}" for item in spec.env)
    entering = ("nsenter", f"--net=/run/netns/{netns}") if netns else ()
    return (*entering, "sh", SHIM, place, mounts(pod, spec, place), *environment, *words)


def mounts(pod: Pod, spec: Container, place: str) -> str:
    """Return the mounts of a container, as lines of fstab(5): its own devices, a termination log among them, and the
    pod's empty directories.
    """
    lines = [f"/dev {place}/dev none rbind", "tmpfs /dev tmpfs mode=755"]
    empty = {volume.name for volume in pod.spec.volumes if volume.empty_dir is not None}
    for mount in spec.volume_mounts:
        if mount.name in empty:
            source = volume_directory(pod.metadata.uid, mount.name)
            lines.append(f"{source} {_escaped(mount.mount_path)} none bind,X-mount.mkdir")
    return "".join(f"{line}\n" for line in lines)


def volume_directory(uid: str, name: str) -> str:
    """Return where a node keeps an empty directory of a pod."""
    return f"{directory(uid)}/volumes/{name}"


def _escaped(path: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in path)
