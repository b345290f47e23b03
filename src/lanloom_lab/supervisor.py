"""The process that is a running lab: `python -m lanloom_lab.supervisor STATE`, started by `lanloom_lab.start`.

It is PID 1 of a PID namespace and has network and mount namespaces of its own. Everything else (API server, kernel,
nodes, links, mounts) is in or below them. So a crash or `kill -9` of the supervisor ends all of it, and nothing is left
on the host. The only access from the network of the host is by two listening sockets on 127.0.0.1 that it inherits: of
the API server, and of the console. Its settings come on standard input; STATE is for readers of the list of processes.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

from msgspec import Struct

from lanloom.api.meta import Key
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.cli.cluster import connect
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom_lab import launch, protocol
from lanloom_lab.console import LabConsole
from lanloom_lab.controllers import Workloads
from lanloom_lab.errors import LabError, ProcessFailed
from lanloom_lab.harvester import connect_as_harvester
from lanloom_lab.kubevirt import KubeVirt
from lanloom_lab.kubevirt.virtapi import connect_as_kubevirt
from lanloom_lab.launch import Settings, decode
from lanloom_lab.layout import Layout
from lanloom_lab.nodes import Nodes, install
from lanloom_lab.plan import (
    API_PORT,
    IMAGE,
    INNER_ADDRESS,
    INNER_PORT,
    NODE_TIMEOUT,
    SUPERVISOR_ADDRESS,
)
from lanloom_lab.processes import ManagedProcess, panic_of, until
from lanloom_lab.protocol import Channel, InnerClient
from lanloom_lab.workloads.hosts import Machines

READY_TIMEOUT = 60.0

T = TypeVar("T")


class Supervisor:
    """One lab from its first process to its last."""

    def __init__(self, settings: Settings, report: Callable[[Struct], None]) -> None:
        self._settings = settings
        self._report = report
        self._layout = Layout(settings.directories.state)
        self._started = time.time()
        self._inner = InnerClient(
            lambda: asyncio.open_connection(INNER_ADDRESS, INNER_PORT, limit=protocol.LINE_MAX)
        )
        self._parts: list[ManagedProcess] = []
        self._down = asyncio.Event()
        self._stack = AsyncExitStack()
        self._nodes: Nodes
        self._machines = Machines()
        self._workloads: asyncio.Task[None] | None = None
        self._kubevirt: KubeVirt
        self._console = LabConsole(
            socket.socket(fileno=settings.console_fd),
            self._layout.kubeconfig,
            self._layout.logs / "console.log",
            time.monotonic,
        )

    async def run(self) -> None:
        """Run the lab until it is requested to end. Raises LabError when it can't start or loses a process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._down.set)
        self._follow()
        try:
            if await self._started_before_down():
                server, console = await self._listen(), asyncio.create_task(self._console.run())
                self._stack.push_async_callback(_end, console)
                async with server:
                    self._report(protocol.Done())
                    await self._while_alive(self._down.wait())
        except KubeError as error:
            raise api_refused(error) from error
        finally:
            self._layout.socket.unlink(missing_ok=True)
            await self._stop_workloads()
            await self._stack.aclose()
            await self._stop_parts()

    def _follow(self) -> None:
        """End with the process that the lab follows, however that one ends."""
        loop, descriptor = asyncio.get_running_loop(), self._settings.follow_fd
        if descriptor is None:
            return

        def ended() -> None:
            loop.remove_reader(descriptor)
            self._down.set()

        loop.add_reader(descriptor, ended)

    async def _started_before_down(self) -> bool:
        """Start, unless the lab is to end before that. Raises as `run`."""
        tasks = [asyncio.create_task(self._start()), asyncio.create_task(self._down.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if started := tasks[0].done():
                tasks[0].result()
            return started
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self) -> None:
        await self._lay_wire()
        self._parts = [await self._start_server(), await self._start_kernel()]
        self._report_progress("starting the API server and the kernel")
        client = await self._ready(self._parts[0], self._connect())
        await self._ready(self._parts[0], install(client))
        await self._ready(self._parts[1], self._inner.wait())
        self._report_progress("plugging in the switch and its DHCP servers")
        await self._while_alive(self._inner.ask(protocol.Plug(self._settings.record.dhcp)))
        self._report_progress("starting the nodes")
        isolation = NamespaceIsolation(enabled=self._settings.record.isolated)
        harvesters = await self._stack.enter_async_context(connect_as_harvester(self._layout.kubeconfig))
        kubevirt = await self._stack.enter_async_context(connect_as_kubevirt(self._layout.kubeconfig))
        workloads = Workloads(
            client, harvesters, kubevirt, self._inner, self._machines, self._layout, isolation
        )
        self._kubevirt = workloads.kubevirt
        self._workloads = asyncio.create_task(workloads.run())
        self._nodes = Nodes(
            self._layout, self._settings.record, self._inner, workloads.registry, self._machines
        )
        await self._while_alive(self._nodes.begin(self._settings.nodes))

    async def _lay_wire(self) -> None:
        wire = launch.UML_WIRE if self._settings.uml else launch.HOST_WIRE
        process = await asyncio.create_subprocess_exec(
            "ip", "-batch", "-", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, complaint = await process.communicate(wire.encode())
        if process.returncode != 0:
            raise ProcessFailed(
                f"the lab's wire can't be laid: {complaint.decode().strip()}", "Try `lanloom doctor`."
            )

    async def _start_server(self) -> ManagedProcess:
        layout = self._layout
        layout.kubeconfig.unlink(missing_ok=True)
        words = [
            sys.executable,
            "-m",
            "lanloom",
            "serve",
            "--data",
            layout.data,
            "--tokens",
            layout.tokens,
        ]
        # The same port in both network namespaces: one kubeconfig serves the host and the supervisor.
        words += ["--kubeconfig", layout.kubeconfig, "--port", self._settings.record.port]
        words += ["--socket-fd", self._settings.api_fd, "--listen", f"{SUPERVISOR_ADDRESS}:{API_PORT}"]
        words += ["--kubevirt", "--dummy-image", IMAGE, "--dummy-node-timeout", NODE_TIMEOUT]
        words += ["--namespace-isolation"] if self._settings.record.isolated else []
        log = layout.logs / "serve.log"
        return await ManagedProcess.start(
            "the API server", [*map(str, words)], log, pass_fds=[self._settings.api_fd]
        )

    async def _start_kernel(self) -> ManagedProcess:
        directories = self._settings.directories
        if self._settings.uml is None:
            name, words = "the inner daemon", launch.host_command()
        else:
            nodes = max(self._settings.nodes, len(self._settings.record.nodes))
            name, words = "user-mode Linux", launch.uml_command(self._settings.uml, directories, nodes)
        memory = launch.memory_directory(directories.scratch)
        environment = os.environ | directories.environment() | {"TMPDIR": str(memory)}
        return await ManagedProcess.start(
            name, words, self._layout.logs / "kernel.log", environment=environment, fatal=panic_of
        )

    async def _connect(self) -> Client:
        await until(self._layout.kubeconfig.exists)
        return await self._stack.enter_async_context(connect(str(self._layout.kubeconfig), logs=True))

    async def _ready(self, part: ManagedProcess, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                return await self._while_alive(work)
        except TimeoutError:
            raise part.too_slow(READY_TIMEOUT) from None

    async def _while_alive(self, work: Awaitable[T]) -> T:
        """Return the result of the work. Raises ProcessFailed as soon as a process of the lab ends."""
        wanted = asyncio.ensure_future(work)
        watchers = [asyncio.create_task(part.ended()) for part in self._parts]
        if self._workloads is not None:
            watchers.append(asyncio.create_task(_failure(self._workloads)))
        try:
            done, _ = await asyncio.wait([wanted, *watchers], return_when=asyncio.FIRST_COMPLETED)
            for watcher in watchers:
                if watcher in done:
                    watcher.result()
            return wanted.result()
        finally:
            for task in (wanted, *watchers):
                task.cancel()
            await asyncio.gather(wanted, *watchers, return_exceptions=True)

    async def _listen(self) -> asyncio.Server:
        # Bound through a descriptor: the path of a state directory may be longer than the address of a socket.
        self._layout.socket.unlink(missing_ok=True)
        directory = os.open(self._layout.state, os.O_PATH)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"/proc/self/fd/{directory}/{self._layout.socket.name}")
        os.close(directory)
        return await asyncio.start_unix_server(self._accept, sock=listener, limit=protocol.LINE_MAX)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        try:
            await self._answer(channel)
        except LabError as error:
            await channel.send(as_failure(error))
        except KubeError as error:
            await channel.send(as_failure(api_refused(error)))
        except OSError as error:
            await channel.send(as_failure(unreachable(error)))
        await channel.finish()

    async def _answer(self, channel: Channel) -> None:
        match await channel.receive_request():
            case protocol.Status():
                await channel.send(await self._status())
            case protocol.NodeAction(action, name):
                await self._nodes.act(action, name)
                await channel.send(protocol.Done())
            case protocol.Cut() as request:
                await channel.send(await self._inner.ask(request))
            case protocol.Exec() as request:
                await self._inner.relay(request, channel)
            case protocol.RunInGuest(namespace, name, command):
                status, text = await self._kubevirt.run_in_guest(Key(namespace, name), command)
                await channel.send(protocol.Output("stdout", f"{text}\n".encode() if text else b""))
                await channel.send(protocol.Exited(status))
            case protocol.LinkToConsole():
                await channel.send(protocol.Link(await self._console.link()))
            case protocol.Down():
                self._down.set()
                # The connection stays open: its end tells the caller that the lab has gone.
                await channel.receive()

    async def _status(self) -> protocol.LabStatus:
        return protocol.LabStatus(
            kernel=self._settings.selected.kernel,
            version=self._settings.selected.version,
            reason=self._settings.selected.reason,
            server=f"https://127.0.0.1:{self._settings.record.port}",
            console=self._console.address,
            kubeconfig=str(self._layout.kubeconfig),
            started=self._started,
            nodes=await self._nodes.report(),
            dhcp=self._settings.record.dhcp,
        )

    async def _stop_workloads(self) -> None:
        if self._workloads is not None:
            self._workloads.cancel()
            await asyncio.gather(self._workloads, return_exceptions=True)

    async def _stop_parts(self) -> None:
        # The kernel is asked from inside: its cage passes no signal on.
        for kernel in self._parts[1:]:
            try:
                await self._inner.send(protocol.Down())
            except OSError:
                await kernel.kill()
        await asyncio.gather(*(part.stop() for part in self._parts))

    def _report_progress(self, text: str) -> None:
        self._report(protocol.Progress(text))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _failure(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task that should have none, without ending it."""
    await asyncio.shield(task)


def api_refused(error: KubeError) -> ProcessFailed:
    """Return the lab's error for an error of its own API server."""
    return ProcessFailed(
        f"the lab's API server refused or did not answer: {error}", "See log/serve.log in the lab's state."
    )


def unreachable(error: OSError) -> ProcessFailed:
    """Return the lab's error for its own kernel that does not answer."""
    return ProcessFailed(
        f"the lab's kernel does not answer: {error}", "See log/kernel.log in the lab's state."
    )


def as_failure(error: LabError) -> protocol.Failed:
    """Return an exception as a message."""
    return protocol.Failed(type(error).__name__, error.problem, error.remedy)


def main() -> int:
    """Run the lab that the settings on standard input describe; return the exit status."""
    settings = decode(sys.stdin.buffer.read())
    layout = Layout(settings.directories.state)

    def report(message: Struct) -> None:
        # The process that started the lab may have gone away; the lab stays.
        with suppress(BrokenPipeError):
            os.write(settings.report_fd, protocol.encode(message))

    try:
        layout.lock()
        _run(Supervisor(settings, report), layout)
    except LabError as error:
        report(as_failure(error))
        return 1
    return 0


def _run(supervisor: Supervisor, layout: Layout) -> None:
    # What the run before has left can go, now that no other run can be using it.
    os.ftruncate(sys.stdout.fileno(), 0)
    layout.last_words.unlink(missing_ok=True)
    try:
        asyncio.run(supervisor.run())
    except LabError as error:
        layout.last_words.write_text(str(error))
        raise
    finally:
        shutil.rmtree(layout.scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
