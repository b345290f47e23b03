"""Start a lab: choose a kernel, fetch missing assets, and leave a supervisor behind that is ready."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, structs

import lanloom
from lanloom.node.kernel import namespaces_command
from lanloom_lab import assets, protocol
from lanloom_lab.errors import ProcessFailed, Refused
from lanloom_lab.guests.assets import guest_assets
from lanloom_lab.kernel import KernelOption, SelectedKernel, choose_here
from lanloom_lab.launch import Directories, Settings, encode
from lanloom_lab.layout import LabRecord, Layout, check_plain
from lanloom_lab.plan import DEFAULT_DHCP, DhcpNetwork
from lanloom_lab.processes import tail, until
from lanloom_lab.protocol import as_error
from lanloom_lab.uml import uml_kernel

Progress = Callable[[str], None]

END_SECONDS = 10.0
"""Within which all of a lab has ended that is killed."""


class Options(Struct, frozen=True):
    """The options of the user. `dhcp` None keeps the DHCP networks, or the default ones; `isolated` None what it is.

    `follow` is the id of a process with which the lab ends, however that one does.
    """

    nodes: int = 3
    kernel: KernelOption = KernelOption()
    dhcp: tuple[DhcpNetwork, ...] | None = None
    isolated: bool | None = None
    follow: int | None = None


def start(layout: Layout, options: Options, progress: Progress) -> SelectedKernel:
    """Start a lab and wait until it is ready; return the kernel that it runs on. Raises LabError.

    An existing lab returns with its nodes, files and objects.
    """
    layout.make()
    os.close(layout.lock())
    selected = choose_here(options.kernel.kind)
    cache = assets.default_cache()
    tree = assets.private_tree(cache, progress)
    guests = guest_assets(cache, progress).directory
    uml = None
    if selected.kernel == "uml":
        uml, why = uml_kernel(cache, progress, options.kernel.series)
        selected = structs.replace(selected, version=uml.version, reason=f"{selected.reason}; {why}")
    progress(f"kernel: {selected}")
    record = layout.load() or LabRecord(DEFAULT_DHCP)
    if options.dhcp is not None:
        record = structs.replace(record, dhcp=options.dhcp)
    if options.isolated is not None:
        record = structs.replace(record, isolated=options.isolated)
    with (
        _listen(record.port) as api,
        _listen(record.console_port) as console,
        _process(options.follow) as follow_fd,
    ):
        record = structs.replace(record, port=api.getsockname()[1], console_port=console.getsockname()[1])
        settings = Settings(
            selected,
            _directories(layout, tree, guests),
            uml,
            options.nodes,
            record,
            api.fileno(),
            console.fileno(),
            -1,
            follow_fd,
        )
        _launch(layout, settings, progress)
    return selected


@contextmanager
def _process(pid: int | None) -> Iterator[int | None]:
    """Give a descriptor of a process, by which its end is seen from other namespaces too."""
    if pid is None:
        yield None
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        problem = f"the process {pid} can't be followed: {error.strerror}"
        raise Refused(problem, "Name a process that runs with --follow.") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _directories(layout: Layout, tree: Path, guests: Path) -> Directories:
    source = Path(lanloom.__file__).parents[1]
    site = Path(msgspec.__file__).parents[1]
    for path in (tree, source, site, guests):
        check_plain(path, "Lanloom and its cache can't be in")
    return Directories(tree, source, site, guests, layout.state, layout.scratch)


def _listen(port: int) -> socket.socket:
    """Open a socket on the host, at its former port if that is free: kubeconfigs and bookmarks stay valid."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def _launch(layout: Layout, settings: Settings, progress: Progress) -> None:
    """Leave the supervisor behind, or nothing if it fails or the user interrupts."""
    read, write = os.pipe()
    cage = [*namespaces_command("net", "mount", "pid", "ipc"), "--fork", "--kill-child=KILL"]
    log = layout.logs / "supervisor.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*cage, sys.executable, "-m", "lanloom_lab.supervisor", str(layout.state)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=tuple(
                fd
                for fd in (settings.api_fd, settings.console_fd, write, settings.follow_fd)
                if fd is not None
            ),
            start_new_session=True,
        )
    os.close(write)
    try:
        assert process.stdin
        with process.stdin:
            process.stdin.write(encode(structs.replace(settings, report_fd=write)))
        _follow(read, log, progress)
    except BaseException:
        process.kill()
        process.wait()
        asyncio.run(_end(layout))
        raise


async def _end(layout: Layout) -> None:
    """Wait until no process of a killed lab holds its lock: then its files can be removed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await until(lambda: not layout.runs())


def _follow(read: int, log: Path, progress: Progress) -> None:
    for message in _messages(read):
        match message:
            case protocol.Progress(text):
                progress(text)
            case protocol.Done():
                return
            case protocol.Failed():
                raise as_error(message)
    raise ProcessFailed(
        "the lab's supervisor died while it started", f"The end of its log, {log}:\n{tail(log)}"
    )


def _messages(read: int) -> Iterator[protocol.AnyMessage]:
    with open(read, "rb") as lines:
        for line in lines:
            yield protocol.decode_message(line)
