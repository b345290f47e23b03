"""A container runtime as the plugin sees it, and an agent that says what it is told to."""

import ast
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from lanloom.features.ipam.agent import PROGRAM, program
from lanloom.runtime.cni import install
from tests.harness.syntax import parse

Raw = dict[str, Any]

CONFIG: Raw = {
    "cniVersion": "1.0.0",
    "name": "lan",
    "type": "bridge",
    "ipam": {"type": "lanloom-ipam", "network": "net1"},
}
ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c0ffee",
    "CNI_NETNS": "/run/netns/pod",
    "CNI_IFNAME": "net1",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u-1",
    "CNI_PATH": "/opt/cni/bin",
}


class Answer(Struct, frozen=True):
    """What the plugin did."""

    status: int
    output: str
    complaint: str

    @property
    def json(self) -> Raw:
        """The output as data."""
        body: Raw = json.loads(self.output)
        return body

    @property
    def code(self) -> int:
        """The code of an error; checks that it is one as CNI wants it."""
        body = self.json
        assert self.status == 1 and body["msg"] and body["cniVersion"]
        return int(body["code"])


class Runtime:
    """Calls the plugin that is installed in `directory`; the socket is beside it unless it is named."""

    def __init__(self, directory: Path, socket: Path | None = None) -> None:
        self.socket = socket or directory / "cni.sock"
        self._program = directory / PROGRAM
        install(directory, PROGRAM, program(self.socket))

    def call(self, config: Raw | bytes = CONFIG, *without: str, **environment: str) -> Answer:
        """One call, with these variables instead of the usual ones."""
        variables = {key: value for key, value in (ENVIRONMENT | environment).items() if key not in without}
        text = config if isinstance(config, bytes) else json.dumps(config).encode()
        done = subprocess.run(
            [self._program], env=variables, input=text, capture_output=True, timeout=60, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


class FakeAgent:
    """Gives every caller the same answer, and keeps what the last one asked."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(os.fspath(path))
        self._listening.listen()
        self._answer = answer
        self.heard: Raw = {}

    def serve(self) -> None:
        """Until it is stopped."""
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                self.heard = json.loads(stream.read())
                connection.sendall(self._answer)

    def stop(self) -> None:
        """Wakes the one who accepts, too."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def agent(path: Path, answer: Raw | bytes) -> Iterator[FakeAgent]:
    """A fake agent that answers with this."""
    fake = FakeAgent(path, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
    thread = threading.Thread(target=fake.serve)
    thread.start()
    try:
        yield fake
    finally:
        fake.stop()
        thread.join()
        path.unlink()


def imports_of_old_python(text: bytes) -> set[str]:
    """The modules that a program imports, which must be one that Python 3.6 can read and define."""
    tree = parse(text, feature_version=(3, 6))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    arguments = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg) and node.annotation]
    returns = [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns]
    assert all(isinstance(item, ast.Constant | ast.Name) for item in (*arguments, *returns))
    return {item.name for node in ast.walk(tree) if isinstance(node, ast.Import) for item in node.names}
