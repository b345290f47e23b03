"""The command line as its users call it."""

import gc
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import structlog.testing
from click.testing import CliRunner

from lanloom.cli.cluster import connect
from lanloom.cli.root import RootGroup
from lanloom.command import COMMANDS, cli
from lanloom.runtime.slimimports import uncollected

Completed = subprocess.CompletedProcess[str]


def lanloom(*words: str, home: Path | None = None, user: int | None = None) -> Completed:
    """Run `lanloom …` without any cluster configured, as the user of that number."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home or "/nonexistent")}
    return subprocess.run(
        [sys.executable, "-m", "lanloom", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        user=user,
    )


@pytest.mark.parametrize("words", [("--help",), ("completion", "bash")], ids=" ".join)
def test_a_full_disk(words: tuple[str, ...]) -> None:
    """Output that finds no room is an error in one line, not a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lanloom", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


def test_help_lists_every_command() -> None:
    """`lanloom --help` names each command with a line on what it does."""
    output = lanloom("--help").stdout
    for name, (_, line) in COMMANDS.items():
        assert f"  {name}" in output
        assert line in output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name: str) -> None:
    """A command's help shows at least one example of its use."""
    done = CliRunner().invoke(cli, [name, "--help"], prog_name="lanloom")
    assert done.exit_code == 0
    assert "Example" in done.stdout
    assert f"lanloom {name}" in done.stdout


ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"`lanloom ((?:[a-z][a-z-]*(?: |(?=`)))+)")
"""A command in a message or on a page, up to its first argument."""


def _named() -> Iterator[tuple[str, ...]]:
    """Yield the commands that messages and pages name."""
    for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"):
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text())
        yield from (tuple(found.split()) for found in QUOTED.findall(text))


def test_messages_name_commands_that_are_there() -> None:
    """What a message or a page tells the user to run is a command of this version."""
    named = sorted(set(_named()))
    assert len(named) > 50
    assert [words for words in named if not _is_there(words)] == []


def _is_there(words: tuple[str, ...]) -> bool:
    found: click.Command | None = cli
    for word in words:
        if not isinstance(found, click.Group):
            break
        found = found.get_command(click.Context(found), word)
    return found is not None


def _commands(found: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of a command and of all below it."""
    yield words
    if isinstance(found, click.Group):
        context = click.Context(found)
        for name in found.list_commands(context):
            inner = found.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, *words, name)


@pytest.mark.parametrize("option", ["-t", "-o", "--disk", "--os-type", "-B"])
def test_options_of_ganeti_about_other_things(option: str) -> None:
    """An option of gnt-instance that is about disks, memory or the system is refused with what Lanloom manages."""
    done = CliRunner().invoke(
        cli, ["instance", "add", option, "x", "--net", "0:ip=pool,network=net1", "inst1"]
    )
    assert done.exit_code == 2
    assert f"No such option: {option}. Lanloom manages networks and addresses only" in done.stderr


def test_groups_show_whole_sentences() -> None:
    """The lists of commands about networks and instances cut no sentence short."""
    runner = CliRunner(env={"COLUMNS": "80"})
    for group in ("network", "instance", "ganeti"):
        assert "..." not in runner.invoke(cli, [group, "--help"]).output.partition("Commands:")[2]


def test_help_fits_a_terminal() -> None:
    """Every sentence of every command's help is folded to 80 columns; only examples may be longer, to be copied."""
    runner = CliRunner(env={"COLUMNS": "80"})
    for words in _commands(cli):
        text = runner.invoke(cli, [*words, "--help"], prog_name="lanloom").output
        before, _, after = text.partition("Example")
        lines = before.splitlines() + after.partition("\nOptions:")[2].splitlines()
        assert all(len(line) <= 80 for line in lines), words


@pytest.mark.parametrize("words", [["nonsense"], ["status", "--nonsense"], ["agent"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    """What can't be understood exits with 2 and points to the help."""
    done = lanloom(*words)
    assert done.returncode == 2
    assert "--help" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["status"], ["manager"], ["agent", "--node", "a"]])
def test_a_missing_cluster_is_one_line(words: list[str]) -> None:
    """Without a configured cluster a command says in one line what to set, and exits with 1."""
    done = lanloom(*words)
    assert done.returncode == 1
    assert done.stderr == "Error: no cluster is configured; set KUBECONFIG or pass --kubeconfig FILE\n"


@pytest.mark.slow
def test_a_broken_kubeconfig_is_named(tmp_path: Path) -> None:
    """A kubeconfig that is none is named with what is wrong with it."""
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")
    done = lanloom("status", "--kubeconfig", str(broken))
    assert done.returncode == 1
    assert str(broken) in done.stderr
    assert "Traceback" not in done.stderr


PROCESSES = [["manager"], ["agent", "--node", "a"]]


def _kubeconfig(directory: Path) -> str:
    """A kubeconfig for a server that no command asks."""
    path = directory / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("words", PROCESSES, ids=lambda words: words[0])
def test_a_port_for_metrics_that_is_taken_is_one_line(words: list[str], tmp_path: Path) -> None:
    """A process whose metrics' port another process has says so in one line, with the option to change, and ends."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = lanloom(*words, "--kubeconfig", _kubeconfig(tmp_path), "--metrics-address", address)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: can't listen on {address}: Address already in use; choose another --metrics-address\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", PROCESSES, ids=lambda words: words[0])
def test_an_address_for_metrics_that_is_none_is_one_line(words: list[str], tmp_path: Path) -> None:
    """An address that can't be read is named."""
    done = lanloom(*words, "--kubeconfig", _kubeconfig(tmp_path), "--metrics-address", "9810")
    assert done.returncode == 1
    assert done.stderr == "Error: 9810 is not an address of the form HOST:PORT\n"


@pytest.mark.slow
def test_doctor_tells_programs_what_it_found() -> None:
    """`lanloom doctor --output json` lists each check with its result, and what to do where it failed."""
    done = lanloom("doctor", "--output", "json")
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert {
        "kernel: 802.1Q",
        "rights",
        "profile directory",
        "state directory",
        "NetworkManager",
        "agent",
    } <= checks.keys()
    assert all(check["remedy"] for check in checks.values() if check["result"] == "failed")
    assert done.returncode == int(any(check["result"] == "failed" for check in checks.values()))


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may look into, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_doctor_of_an_ordinary_user(public: Path) -> None:
    """A user who may not look at the agent's directories gets all findings, and that root can look."""
    private, state = public / "private", public / "state"
    for directory in (private, private / "profiles", private / "bin", state):
        directory.mkdir()
    for plugin in ("lanloom-ipam", "k8slan", "macvtap"):
        (private / "bin" / plugin).touch()
    for directory in (private, state):
        directory.chmod(0o700)
    done = lanloom(
        *("doctor", "--output", "json", "--agent-address", "127.0.0.1:0"),
        *("--profiles", str(private / "profiles"), "--cni-bin", str(private / "bin")),
        *("--state", str(state), "--runtime", str(private / "runtime")),
        user=65534,
    )
    assert (done.returncode, done.stderr) == (1, "")
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    for name in ("profile directory", "state directory", "runtime directory"):
        assert checks[name]["result"] == "failed"
        assert "Run as root" in checks[name]["remedy"]
        assert "others may write" not in checks[name]["found"]


FREE = {
    *("--as", "--as-group", "--as-uid", "--request-timeout", "-l", "--field-selector", "--separator"),
    *("--address", "--agent-address", "--host-name", "--listen", "--metrics-address", "--webhook-address"),
    *("--cni-socket", "--cluster", "--daemon-set", "--identity", "--user", "--image", "--dummy-image"),
    *("--dummy-node-timeout", "--global-namespaces", "--underlay", "--source", "--node", "--name", "--owner"),
    *("--add-reserved-ips", "--remove-reserved-ips", "--gateway", "--gateway6", "--network", "--network6"),
    *(
        "--lan-port",
        "--mac-prefix",
        "--namespaces",
        "--force-namespaces",
        "--quota",
        "--sticky-for",
        "--subnet",
        "--pool",
        "--net",
        "--tags",
        "-N",
    ),
}
"""Options whose value is not known beforehand, or that is a text with a grammar of its own."""

NEW = {("instance", "add", "instance"), ("instance", "rename", "name"), ("network", "add", "name")}
NEW |= {("network", "rename", "name")}
"""Arguments that are names of something new."""


def parameters(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    """Every parameter below a command with the words that lead to it."""
    context = click.Context(command, info_name="lanloom")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden and name != "lab":
                yield from parameters(below, *path, name)
    else:
        yield from (((*path, item.opts[0]), item) for item in command.params)


@pytest.mark.slow
def test_values_are_completed() -> None:
    """A shell completes each value that a file, the cluster or Lanloom itself knows."""
    known = (click.Choice, click.Path, click.File, click.IntRange, click.FloatRange)
    missing = [
        words
        for words, item in parameters(cli)
        if not (getattr(item, "is_flag", False) or getattr(item, "hidden", False))
        and not isinstance(item.type, known)
        and item._custom_shell_complete is None
        and words[-1] not in FREE
        and words not in NEW
    ]
    assert not missing


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_lanloom(shell: str) -> None:
    """The completion script of each shell completes the command lanloom."""
    assert "_LANLOOM_COMPLETE" in lanloom("completion", shell).stdout


def test_the_plugin_of_kubectl() -> None:
    """Called as kubectl's plugin, the command says so in its usage."""
    program = "import sys; sys.argv[:] = ['/usr/bin/kubectl-lanloom', 'lan', '--help']\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}from lanloom.entry import main; main()"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: kubectl lanloom lan ")


@pytest.mark.parametrize("name", ["lanloom", "kubectl-lanloom"])
@pytest.mark.parametrize("columns", ["60", "79", "80", "200", "", "0", "x"])
def test_the_help_that_is_a_file(name: str, columns: str) -> None:
    """The help is the same as what click makes, at any width; where it is a file, no module is imported for it."""
    program = (
        f"import sys; sys.argv[:] = ['/usr/bin/{name}', '--help']\n"
        "from lanloom.entry import main\n"
        "known = set(sys.modules)\n"
        "try:\n    main()\n"
        "finally:\n    print(len(set(sys.modules) - known))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, imported = done.stdout.splitlines()
    wide = columns not in ("60", "79")
    width = 78 if wide else int(columns) - 2
    context = cli.make_context(name.replace("-", " "), [], resilient_parsing=True, terminal_width=width)
    assert lines == cli.get_help(context).splitlines()
    assert (imported == "0") == wide


@click.command()
def interrupted() -> None:
    """Wait for Ctrl-C."""
    raise KeyboardInterrupt


def test_an_interrupted_command() -> None:
    """Ctrl-C ends a command with the exit code that shells have for it, and says what goes on."""
    group = RootGroup(name="lanloom", lazy={"wait": (f"{__name__}:interrupted", "Wait.")})
    done = CliRunner().invoke(group, ["wait"])
    assert (done.exit_code, done.output) == (
        130,
        "Interrupted. What the cluster has accepted before goes on there.\n",
    )


def test_a_process_logs_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process logs which fields of its kubeconfig are ignored; a command prints them."""
    path = tmp_path / "config"
    content = {
        "current-context": "m",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "impersonate": "jane"}}],
        "contexts": [{"name": "m", "context": {"cluster": "c"}}],
    }
    path.write_text(json.dumps(content))
    with structlog.testing.capture_logs() as lines:
        connect(str(path), logs=True)
    (line,) = lines
    text = f"{path}: cluster 'c': the field impersonate is not known and ignored"
    assert (line["event"], line["message"]) == ("kubeconfig-ignored", text)
    assert capsys.readouterr().err == ""
    connect(str(path))
    assert capsys.readouterr().err == f"Note: {text}\n"


@click.command()
def collected() -> None:
    """Says whether Python looks for garbage."""
    click.echo(gc.isenabled())


def test_processes_collect_garbage() -> None:
    """The search for garbage pauses while a command is imported, not while it runs."""
    group = RootGroup(name="lanloom", lazy={"wait": (f"{__name__}:collected", "Wait.")})
    assert CliRunner().invoke(group, ["wait"]).output == "True\n"
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
