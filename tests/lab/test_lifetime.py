"""A lab from its start to whatever ends it."""

import os
import re
import signal
import subprocess
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

from lanloom_lab.layout import LabRecord, Layout
from lanloom_lab.plan import DEFAULT_DHCP
from tests.harness.servers.real import free_ports
from tests.lab.driver import (
    PATIENCE,
    Lab,
    command_line,
    eventually,
    traces,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK = re.compile(r"http://127\.0\.0\.1:\d+/login\?once=\S+")


def consoles(lab: Lab) -> list[int]:
    """The processes of the lab's console."""
    return [pid for pid in lab.processes() if "\0lanloom_lab.webpages\0" in command_line(pid)]


def visited(link: str, path: str) -> str:
    """A page as a user sees it after a login by a link."""
    browser = build_opener(ProxyHandler({}), HTTPCookieProcessor())
    browser.open(link, timeout=PATIENCE).read()
    page: bytes = browser.open(urljoin(link, path), timeout=PATIENCE).read()
    return page.decode()


def test_two_labs_and_a_sudden_death(lab: Lab, own_lab: Lab) -> None:
    """Two labs run side by side, and of one whose supervisor is killed hard nothing is left, while the other lives."""
    before = traces(own_lab)
    own_lab.run("up", "--nodes", "1")
    own_lab.on("node1", "hostname | grep -x node1")
    assert len(own_lab.processes()) > 3
    os.kill(own_lab.supervisor(), signal.SIGKILL)
    eventually(lambda: not own_lab.processes())
    eventually(lambda: not traces(own_lab) - before)
    assert "no lab runs" in own_lab.run("status", status=1).stderr
    lab.on("node1", "true")


def test_a_lab_that_is_put_down_leaves_nothing(own_lab: Lab) -> None:
    """After `down` there are neither processes, links, namespaces, mounts nor files of the lab, and no console.

    Until then the printed link opens the console once, and another one works though its process was killed.
    """
    before = traces(own_lab)
    (link,) = LINK.findall(own_lab.run("up", "--nodes", "1").stdout)
    assert not consoles(own_lab)
    assert "node1" in visited(link, "/nodes")
    with pytest.raises(HTTPError, match="403"):
        visited(link, "/nodes")
    (process,) = consoles(own_lab)
    os.kill(process, signal.SIGKILL)
    eventually(lambda: process not in own_lab.processes())
    assert "node1" in visited(own_lab.run("console").stdout.strip(), "/nodes")
    own_lab.run("down")
    eventually(lambda: not own_lab.processes())  # the last of them has only to be buried
    with pytest.raises(URLError):
        visited(link, "/nodes")
    assert not own_lab.state.exists()
    eventually(lambda: not traces(own_lab) - before)


def test_a_kept_lab_comes_back(own_lab: Lab) -> None:
    """After `down --keep`, `up` brings back nodes, their files, objects and the address of the API server."""
    layout = Layout(own_lab.state)
    layout.make()
    (port,) = free_ports(1)  # of those that the kernel gives to no other process while the lab is down
    layout.save(LabRecord(DEFAULT_DHCP, port))
    own_lab.run("up", "--nodes", "1")
    own_lab.run("node", "add", "extra")
    own_lab.run("node", "stop", "extra")
    own_lab.on("node1", "echo kept > /var/lib/lanloom/mark")
    own_lab.kubectl("annotate", "node", "extra", "example.org/mark=b")
    server = own_lab.status()["server"]
    own_lab.run("down", "--keep")
    own_lab.run("up", "--nodes", "1")
    assert own_lab.on("node1", "cat /var/lib/lanloom/mark") == "kept\n"
    assert own_lab.node("extra")["state"] == "stopped"
    assert "the demo removes the one that it uses" in own_lab.run("demo", status=1).stderr
    mark = own_lab.kubectl(
        "get", "node", "extra", "-o", r"jsonpath={.metadata.annotations.example\.org/mark}"
    )
    assert mark == "b"
    assert own_lab.status()["server"] == server


def test_a_lab_without_a_server_ends(own_lab: Lab) -> None:
    """A lab whose API server dies ends as a whole, and its log says why; until then it played what was asked for."""
    own_lab.run("up", "--nodes", "0", "--harvester", "--kubevirt", "1.9")
    assert "network controller" in own_lab.run("harvester").stdout
    eventually(lambda: "/nic" in own_lab.kubectl("get", "linkmonitors", "-o", "name", fails=None))
    server = next(pid for pid in own_lab.processes() if "\0serve\0" in command_line(pid))
    os.kill(server, signal.SIGKILL)
    eventually(lambda: not own_lab.processes())
    assert "the API server ended unexpectedly" in own_lab.run("status", status=1).stderr


def test_a_lab_whose_kernel_panics_ends(own_lab: Lab) -> None:
    """A lab ends as soon as its kernel panics, and says so in the panic's own words."""
    own_lab.run("up", "--nodes", "1")
    if own_lab.status()["kernel"] != "uml":
        pytest.skip("the lab is on this machine's own kernel")
    own_lab.run("exec", "node1", "--", "sh", "-c", "echo c > /proc/sysrq-trigger", status=None)
    eventually(lambda: not own_lab.processes())
    assert "user-mode Linux panicked: sysrq triggered crash" in own_lab.run("status", status=1).stderr


def test_an_interrupted_start_leaves_nothing(own_lab: Lab) -> None:
    """Ctrl-C while a lab starts ends all of it."""
    starting = own_lab.start("up", "--nodes", "1")
    eventually(lambda: any("\0serve\0" in command_line(pid) for pid in own_lab.processes()))
    starting.send_signal(signal.SIGINT)
    assert starting.wait(PATIENCE) != 0
    eventually(lambda: not own_lab.processes())


@pytest.mark.parametrize("ready", [True, False])
def test_a_lab_ends_with_the_process_that_it_follows(own_lab: Lab, ready: bool) -> None:
    """A lab that follows a process ends with it, even if that one is killed, or before the lab has started."""
    followed = subprocess.Popen(["sleep", "1000"])
    words = ("up", "--nodes", "0", "--follow", str(followed.pid))
    starting = None
    try:
        if ready:
            own_lab.run(*words)
        else:
            starting = own_lab.start(*words)
        eventually(lambda: any("\0serve\0" in command_line(pid) for pid in own_lab.processes()))
    finally:
        followed.kill()
        followed.wait()
    eventually(lambda: not own_lab.processes())
    if starting is not None:
        assert starting.wait(PATIENCE) != 0


def test_a_process_that_is_gone_is_not_followed(own_lab: Lab) -> None:
    """A lab that is to follow a process that does not exist refuses to start."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    refused = own_lab.run("up", "--nodes", "0", "--follow", str(ended.pid), status=1)
    assert f"the process {ended.pid} can't be followed" in refused.stderr


def test_an_interrupted_demo_leaves_nothing(own_lab: Lab) -> None:
    """Ctrl-C while the demo's lab starts ends all of it and removes its files, so that the next demo can begin."""
    starting = own_lab.start("demo")
    eventually(lambda: any("\0serve\0" in command_line(pid) for pid in own_lab.processes()))
    starting.send_signal(signal.SIGINT)
    assert starting.wait(PATIENCE) != 0
    eventually(lambda: not own_lab.processes())
    assert not own_lab.state.exists()


def test_a_failed_start_says_why(own_lab: Lab) -> None:
    """A lab that can't start says which part failed, shows its log, and leaves no process."""
    own_lab.state.mkdir()
    (own_lab.state / "data.db").write_bytes(b"this is no database " * 100)
    failed = own_lab.run("up", "--nodes", "0", status=1)
    assert "the API server ended unexpectedly" in failed.stderr
    assert "serve.log" in failed.stderr
    eventually(lambda: not own_lab.processes())


def test_nothing_to_end_is_no_error(own_lab: Lab) -> None:
    """`down` where no lab runs says so and succeeds."""
    assert "no lab was running" in own_lab.run("down").stdout
