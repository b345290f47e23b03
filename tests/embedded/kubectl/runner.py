"""kubectl as a user runs it, against one server, with a home of its own; what it says is kept as a transcript."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import yaml
from msgspec import Struct

from tests.embedded.cases.kit.ground import Ground
from tests.embedded.cases.kit.objects import Raw
from tests.embedded.cases.kit.script import Api, slug
from tests.embedded.cases.kit.suite import Case
from tests.embedded.cases.kit.wire import Json
from tests.harness.servers.build import SHORT_LIVED

PATIENCE = 120

_NOISE = (
    # Notes of kubectl's own log, such as that a watch was short.
    (re.compile(r"^[WI]\d{4} .*\n?", re.MULTILINE), ""),
    # The end of the time that a command was given may meet its watch, or not.
    (re.compile(r"^E\d{4} .*Failed to watch.*: context deadline exceeded\"\n?", re.MULTILINE), ""),
    (re.compile(r"(?<![\w-])(\d+(\.\d+)?(ms|[smhdy]))+(?![\w-])( ago)?"), "<age>"),
    (re.compile(r"<age> {2,}"), "<age>  "),
    (re.compile(r"/[^\s]*?(LIVE|MERGED)-[0-9]+"), r"/tmp/\1"),
    (re.compile(r"/[^\s]*?kubectl-edit-[\w.-]+"), "/tmp/edited"),
    (re.compile(r"\t20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\S* \S+"), ""),
    (re.compile(r"(resourceVersion: |Resource Version: ) *\"?\d+\"?"), r"\1<version>"),
    (re.compile(r"(UID:) +"), r"\1 "),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "https://<server>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
)


class UnexpectedExit(AssertionError):
    """kubectl ended with a code that its case did not mean to see."""


class Program(Struct, frozen=True):
    """One kubectl: a short name of its version, and the binary."""

    name: str
    path: Path


class Outcome(Struct, frozen=True):
    """How a command ended."""

    code: int
    error: str


class Kubectl:
    """One case's kubectl: `k("get", "widgets")` runs it in the case's namespace.

    Every command is kept in `transcript` with its exit code and what it said, and must end with the code that the
    case expects (0 by default; -1 accepts any). Output that is JSON or YAML is kept as a document. What a case
    needs around its commands goes through `api`, which is faster and not compared.
    """

    def __init__(self, program: Program, kubeconfig: Path, home: Path, api: Api) -> None:
        self.api = api
        self.ns = self.name = api.ns
        self.transcript: list[dict[str, Any]] = []
        self.strict = False
        self.last = Outcome(0, "")
        self.directory = home / api.ns
        self.directory.mkdir(parents=True, exist_ok=True)
        self._program = program
        self._environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "TMPDIR": str(self.directory),
            **SHORT_LIVED,
        }

    def __call__(
        self, *arguments: str, stdin: Json = None, code: int = 0, environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a command, keep what it says, and return its standard output."""
        done = self._run(arguments, stdin, environment or {})
        step = f"kubectl {' '.join(arguments)}"
        self.last = Outcome(done.returncode, done.stderr)
        self.transcript.append(
            {
                "step": step,
                "code": done.returncode,
                "stdout": _document(arguments, done.stdout),
                "stderr": _lines(done.stderr),
            }
        )
        if self.strict and code >= 0 and done.returncode != code:
            raise UnexpectedExit(f"{step} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def quietly(self, *arguments: str) -> str:
        """Run a command that is not compared."""
        return self._run(arguments, None, {}).stdout

    def make(self, *objects: Raw) -> None:
        """Create objects, not by kubectl."""
        for each in objects:
            self.api.post(f"{each['kind'].lower()}s", each)

    def note(self, name: str, value: Json) -> None:
        """Keep a fact."""
        self.transcript.append({"step": f"note: {name}", "value": value})

    def show(self, path: str) -> None:
        """Keep what an object holds now."""
        body = self.api.get(path).body
        self.note(
            path, {"labels": body["metadata"].get("labels"), **{k: body.get(k) for k in ("spec", "data")}}
        )

    @contextmanager
    def watching(self, *arguments: str) -> Iterator["Watcher"]:
        """A command that goes on until the block ends, such as `get -w`."""
        command = self._command(arguments)
        process = subprocess.Popen(
            command,
            env=self._environment,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        watcher = Watcher(process)
        try:
            yield watcher
        finally:
            process.terminate()
            process.communicate()
        self.transcript.append(
            {"step": f"kubectl {' '.join(arguments)}", "stdout": _lines("".join(watcher.seen))}
        )

    def file(self, name: str, *objects: Raw) -> str:
        """A manifest in the case's directory, where kubectl runs; its name."""
        (self.directory / name).write_text("---\n".join(yaml.safe_dump(each) for each in objects))
        return name

    def _run(
        self, arguments: tuple[str, ...], stdin: Json, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(arguments),
            env={**self._environment, **environment},
            input=stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=self.directory,
        )

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(self._program.path), "--namespace", self.ns, *arguments]


class Desk:
    """Where kubectl is run against one server."""

    def __init__(self, ground: Ground, kubeconfig: Path, home: Path) -> None:
        self._ground = ground
        self._kubeconfig = kubeconfig
        self._home = home

    def run(self, case: Case, program: Program, *, strict: bool) -> list[Json]:
        """Run a case and return its transcript. A strict run raises when a command doesn't end as it should."""
        kubectl = self.kubectl(program, case.name)
        kubectl.strict = strict
        case.run(kubectl)
        return kubectl.transcript

    def kubectl(self, program: Program, name: str) -> Kubectl:
        """A kubectl in a namespace of its own."""
        api = self._ground.namespace(slug(f"{program.name}-{name}"))
        return Kubectl(program, self._kubeconfig, self._home / program.name, api)


class Watcher:
    """The output of a command that goes on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.seen: list[str] = []
        self._process = process

    def lines(self, count: int) -> None:
        """Wait for so many more lines, or for the command's end."""
        assert self._process.stdout is not None
        timer = Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            for _ in range(count):
                self.seen.append(self._process.stdout.readline())
        finally:
            timer.cancel()

    def line_after(self, change: Callable[[int], object]) -> None:
        """Wait for one more line, with another change each second until it comes.

        kubectl drops the first event of a watch of one object, and with it a change before that watch began.
        """
        seen = Event()

        def changing() -> None:
            count = 0
            while not seen.is_set():
                change(count)
                count += 1
                seen.wait(1)

        thread = Thread(target=changing)
        thread.start()
        try:
            self.lines(1)
        finally:
            seen.set()
            thread.join()


def _document(arguments: tuple[str, ...], text: str) -> Json:
    if "json" in arguments or "yaml" in arguments:
        documents = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]
        return documents[0] if len(documents) == 1 else documents
    return _lines(text)


def _lines(text: str) -> list[str]:
    text = "\n".join(_without_managed_fields(text.splitlines()))
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return [line.rstrip() for line in text.splitlines()]


def _without_managed_fields(lines: list[str]) -> Iterator[str]:
    # describe of kubectl 1.20 shows them: a heading, then all that is indented deeper.
    hidden = -1
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if hidden >= 0 and depth > hidden:
            continue
        hidden = depth if line.strip() in ("Managed Fields:", "managedFields:") else -1
        if hidden < 0:
            yield line
