"""The plugin `lanloom-ipam` as a runtime runs it: environment and standard input in, JSON and exit status out."""

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.cni import plugin
from lanloom.features.ipam.agent import PROGRAM, program
from lanloom.runtime.cni import install
from tests.cni.runtime import (
    CONFIG,
    ENVIRONMENT,
    Raw,
    Runtime,
    agent,
    imports_of_old_python,
)

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
RESULT: Raw = {
    "ips": [{"address": "192.0.2.4/24", "gateway": "192.0.2.1"}, {"address": "2001:db8::4/64"}],
    "routes": [{"dst": "0.0.0.0/0", "gw": "192.0.2.1"}],
    "dns": {"nameservers": ["192.0.2.53"]},
}


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """The plugin, installed, with no agent."""
    return Runtime(tmp_path)


def config(version: str = "1.1.0", **more: Any) -> Raw:
    """A network configuration of a version of CNI."""
    return CONFIG | {"cniVersion": version} | more


@pytest.mark.parametrize("version", VERSIONS)
def test_results_have_the_form_of_the_version(runtime: Runtime, version: str) -> None:
    """ADD prints the agent's result, with the IP version of each address where CNI before 1.0.0 wants it."""
    with agent(runtime.socket, {"result": RESULT}):
        answer = runtime.call(config(version))
    old = version.startswith("0.")
    ips = [{**item, "version": kind} if old else item for item, kind in zip(RESULT["ips"], "46", strict=True)]
    assert (answer.status, answer.json) == (0, {**RESULT, "cniVersion": version, "ips": ips})


def test_the_agent_hears_everything(runtime: Runtime) -> None:
    """The request has the parameters of the environment and the configuration as it came."""
    told = config(extra={"any": ["thing"]})
    with agent(runtime.socket, {"result": RESULT}) as fake:
        runtime.call(told)
        assert fake.heard == {
            "version": 1,
            "command": "ADD",
            "container": "c0ffee",
            "interface": "net1",
            "netns": "/run/netns/pod",
            "args": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u-1",
            "config": told,
        }


@pytest.mark.parametrize("command", ["DEL", "CHECK", "STATUS", "GC"])
def test_other_commands_print_nothing(runtime: Runtime, command: str) -> None:
    """Commands without a result succeed with empty output."""
    with agent(runtime.socket, {"result": {}}) as fake:
        answer = runtime.call(config(), CNI_COMMAND=command)
        assert fake.heard["command"] == command
    assert (answer.status, answer.output) == (0, "")


@pytest.mark.parametrize("text", [b"", b'{"cniVersion": "1.0.0"}', b'{"cniVersion": "9.9.9"}'])
def test_versions_are_told_without_an_agent(runtime: Runtime, text: bytes) -> None:
    """VERSION lists what the plugin speaks, whatever the configuration says, and needs no other parameter."""
    answer = runtime.call(
        text, "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", CNI_COMMAND="VERSION"
    )
    assert answer.status == 0
    assert answer.json["supportedVersions"] == list(VERSIONS)
    assert answer.json["cniVersion"] == ("1.0.0" if b"1.0.0" in text else "1.1.0")


def test_an_error_of_the_agent_is_passed_on(runtime: Runtime) -> None:
    """Code, message and details of the agent's error are the plugin's, in the configuration's version."""
    error = {"code": 100, "msg": "network net1 is full", "details": "Nic default/web"}
    with agent(runtime.socket, {"error": error}):
        answer = runtime.call(config("0.4.0"))
    assert (answer.status, answer.json) == (1, {"cniVersion": "0.4.0", **error})


@pytest.mark.parametrize(
    "said",
    [{"error": {"code": 100, "msg": "no"}}, {"error": {"code": "x"}}, {"result": 5}, {}, b"{", b"\xff"],
    ids=["an error", "an odd error", "an odd result", "neither", "cut off", "not UTF-8"],
)
def test_a_del_succeeds_whatever_the_agent_answers(runtime: Runtime, said: Raw | bytes) -> None:
    """No answer of the agent keeps a pod in Terminating; what was wrong is said on standard error."""
    with agent(runtime.socket, said):
        answer = runtime.call(CONFIG, CNI_COMMAND="DEL")
    assert (answer.status, answer.output) == (0, "")
    assert "nothing needs to be done" in answer.complaint


@pytest.mark.slow
@pytest.mark.parametrize("ips", [5, [5], [{}], [{"address": 7}], [None]])
@pytest.mark.parametrize("version", ["0.3.1", "1.0.0"])
def test_addresses_that_are_none(runtime: Runtime, ips: object, version: str) -> None:
    """An answer with malformed addresses is an error of CNI's, not a traceback."""
    with agent(runtime.socket, {"result": {"ips": ips}}):
        answer = runtime.call(config(version))
    assert answer.code == plugin.IO_FAILURE and not answer.complaint


def test_an_agent_that_drips_is_not_waited_for() -> None:
    """The time limit is that of the whole answer: an agent that sends a byte now and then does not prolong it."""

    class Dripping:
        now = 0.0
        limits: ClassVar[list[float]] = []

        def settimeout(self, seconds: float) -> None:
            self.limits.append(seconds)

        def recv(self, _size: int) -> bytes:
            self.now += 4.0
            return b"."

    dripping = Dripping()
    with pytest.raises(TimeoutError):
        plugin.received(dripping, 15.0, lambda: dripping.now)  # type: ignore[arg-type]
    assert dripping.limits == [15.0, 11.0, 7.0, 3.0]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "status"), [("DEL", 0), ("ADD", 1)])
def test_a_call_without_end_ends(tmp_path: Path, command: str, status: int) -> None:
    """A runtime that never closes the configuration gets an answer all the same, after the time of a whole call."""
    Runtime(tmp_path)
    program = tmp_path / PROGRAM
    program.write_text(program.read_text().replace("WHOLE = 90\n", "WHOLE = 1\n"))
    environment = ENVIRONMENT | {"CNI_COMMAND": command}
    with subprocess.Popen(
        [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.wait() == status
        assert process.stdout is not None
        said = process.stdout.read()
    assert json.loads(said)["code"] == plugin.TRY_AGAIN if status else not said


@pytest.mark.parametrize(
    ("command", "code"), [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50), ("DEL", 0)]
)
@pytest.mark.parametrize("there", [False, True])
def test_no_agent(runtime: Runtime, command: str, code: int, there: bool) -> None:
    """Without an agent, or with one that hangs up, a call may be tried again later, and a DEL succeeds."""
    if there:
        with agent(runtime.socket, b""):
            answer = runtime.call(config(), CNI_COMMAND=command)
    else:
        answer = runtime.call(config(), CNI_COMMAND=command)
    if code:
        assert answer.code == code
        assert "agent" in answer.json["msg"]
    else:
        assert (answer.status, answer.output) == (0, "")
        assert "agent" in answer.complaint


@pytest.mark.parametrize(
    "text",
    [
        b"x",
        b"[]",
        b"{}",
        b'{"result": 1}',
        b'{"error": {"code": "x"}}',
        b'{"error": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_answers_that_cannot_be_read(runtime: Runtime, text: bytes) -> None:
    """An answer that is none is an I/O failure, never a result and never a stack trace."""
    with agent(runtime.socket, text):
        answer = runtime.call()
    assert (answer.code, answer.complaint) == (5, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", 6),
        (b"{", 6),
        (b"\xff\xfe", 6),
        (b"[]", 6),
        (b"[" * 100_000, 6),
        (b'{"cniVersion": "1.0.0", "x": "' + b"x" * (1 << 20) + b'"}', 6),
        (b'{"cniVersion": "0.2.0"}', 1),
        (b'{"cniVersion": "2.0.0"}', 1),
        (b'{"cniVersion": ["1.0.0"]}', 1),
        (b'{"cniVersion": null}', 1),
    ],
)
def test_hostile_configurations(runtime: Runtime, text: bytes, code: int) -> None:
    """What can't be read, or is of no known version, is an error of CNI's, before any agent is asked."""
    answer = runtime.call(text)
    assert (answer.code, answer.complaint) == (code, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CNI_COMMAND", ""),
        ("CNI_COMMAND", "add"),
        ("CNI_COMMAND", "FLY"),
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "../x"),
        ("CNI_CONTAINERID", "a b"),
        ("CNI_CONTAINERID", "a" * 256),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "sixteen-letters-"),
        ("CNI_NETNS", ""),
    ],
)
def test_hostile_environments(runtime: Runtime, name: str, value: str) -> None:
    """A parameter that is missing or can't be is an error that names it."""
    answer = runtime.call(CONFIG, **{name: value})
    assert (answer.code, answer.complaint) == (4, "")
    assert name in answer.json["msg"]


def test_a_del_needs_no_namespace(runtime: Runtime) -> None:
    """The namespace may be gone when DEL is called."""
    with agent(runtime.socket, {"result": {}}):
        assert runtime.call(CONFIG, "CNI_NETNS", CNI_COMMAND="DEL").status == 0


@pytest.mark.parametrize(("command", "version"), [("CHECK", "0.3.1"), ("STATUS", "1.0.0"), ("GC", "0.4.0")])
def test_commands_of_later_versions(runtime: Runtime, command: str, version: str) -> None:
    """A command that the configuration's version of CNI has not got is refused."""
    answer = runtime.call(config(version), CNI_COMMAND=command)
    assert answer.code == 1
    assert command in answer.json["msg"]


@given(text=st.binary(max_size=200))
def test_no_input_breaks_it(text: bytes) -> None:
    """Whatever comes on standard input, there is an answer in CNI's form."""
    status, output = plugin.main({"CNI_COMMAND": "ADD"}, text)
    assert status == 1 and output.startswith("{")


def test_it_runs_with_old_pythons() -> None:
    """The program's text is one that Python 3.6 can read, and it imports only what that has."""
    names = imports_of_old_python(program(Path("/s")))
    assert names == {"collections.abc", "json", "os", "re", "signal", "socket", "sys", "time"}


@pytest.mark.parametrize("there", [False, True], ids=["no Python", "an old Python"])
def test_without_a_python_that_can_run_it(tmp_path: Path, there: bool) -> None:
    """It says that it needs a Python; a DEL succeeds all the same, and says so on standard error."""
    runtime = Runtime(tmp_path)
    path = tmp_path / PROGRAM
    text = path.read_text()
    old = text.replace("(3, 6)", "(99, 0)")
    none = text.replace("/usr/bin/python3 /usr/libexec", "/nowhere")
    path.write_text(old if there else none)
    added = runtime.call(PATH="/nowhere")
    assert added.code == 102 and "needs Python 3.6 or later" in added.json["msg"]
    deleted = runtime.call(PATH="/nowhere", CNI_COMMAND="DEL")
    assert (deleted.status, deleted.output) == (0, "")
    assert "needs Python 3.6 or later" in deleted.complaint


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    """The program is put in place once, executable, and again when its text or mode differs; nothing else is left."""
    directory = tmp_path / "opt/cni/bin"
    assert [install(directory, PROGRAM, program(Path("/a"))) for _ in range(2)] == [True, False]
    assert install(directory, PROGRAM, program(Path("/b")))
    (directory / "lanloom-ipam").chmod(0o700)
    assert install(directory, PROGRAM, program(Path("/b")))
    assert [(item.name, item.stat().st_mode & 0o777) for item in directory.iterdir()] == [
        ("lanloom-ipam", 0o755)
    ]
