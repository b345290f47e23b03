"""A running lab: its nodes, and what one can do with them."""

import os
import pty
import subprocess
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def ready(lab: Lab, node: str) -> str:
    """The status of the Node's condition Ready."""
    return lab.kubectl("get", "node", node, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")


def programs(node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The programs of a node of the status, by name."""
    return {program["name"]: program for program in node["programs"]}


def test_the_kernel_is_named(lab: Lab) -> None:
    """The status says which kernel carries the lab, and why."""
    report = lab.status()
    assert report["kernel"] in {"host", "uml"}
    assert report["reason"]


def test_the_nodes_run(lab: Lab) -> None:
    """Every node runs, with NetworkManager and the agent."""

    def run() -> bool:
        # A kernel that is asked, and too busy to answer in time, is reported as if its nodes had failed.
        return all(
            node["state"] == "running" and programs(node).keys() >= {"NetworkManager", "agent"}
            for node in lab.status()["nodes"]
        )

    eventually(run)


def test_the_status_fits_a_terminal(lab: Lab) -> None:
    """On a terminal of 80 columns, the table of the status has no line of more."""
    # Its exit status says whether all programs run, which a kernel that is too busy to answer in time does not tell.
    shown = eventually(lambda: lab.run("status", columns=80))
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_a_second_start_is_refused(lab: Lab) -> None:
    """`up` on a running lab fails, says that it runs and what one can do."""
    assert "a lab runs already" in lab.run("up", status=1).stderr


def test_kubectl_works_from_the_host(lab: Lab) -> None:
    """kubectl on the host lists the nodes, which are Ready."""
    assert {ready(lab, name) for name in ("node1", "node2", "node3")} == {"True"}


def test_a_node_has_its_internal_address(lab: Lab) -> None:
    """The Node object carries the address that the node has in the management network."""
    address = lab.kubectl(
        "get", "node", "node2", "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}"
    )
    assert f" {address}/24 " in lab.on("node2", "ip -oneline address show mgmt-br.2021")


def test_the_agent_reaches_the_server(lab: Lab) -> None:
    """A node's own kubeconfig works on the node."""
    kubeconfig = (
        "import json; print(json.load(open('/etc/lanloom/kubeconfig'))['clusters'][0]['cluster']['server'])"
    )
    server = lab.on("node1", f'python3 -c "{kubeconfig}"').strip().removeprefix("https://")
    host, port = server.split(":")
    lab.on("node1", f"python3 -c \"import socket; socket.create_connection(('{host}', {port}), 5)\"")


def test_exec_passes_everything_through(lab: Lab) -> None:
    """Standard input, output, error and the exit status of a program on a node arrive here."""
    done = lab.run("exec", "node1", "--", "sh", "-c", "cat; echo oops >&2; exit 7", given="hello\n", status=7)
    assert (done.stdout, done.stderr) == ("hello\n", "oops\n")


def test_exec_passes_much_through(lab: Lab) -> None:
    """A million bytes arrive complete."""
    assert len(lab.on("node1", "head -c 1000000 /dev/zero | tr '\\0' x")) == 1_000_000


def test_exec_reports_a_signal(lab: Lab) -> None:
    """A program that dies of a signal has the exit status that a shell would report."""
    lab.run("exec", "node1", "--", "sh", "-c", "kill -TERM $$", status=143)


def test_exec_of_a_program_that_ends_before_its_input(lab: Lab) -> None:
    """A program that leaves most of its input unread passes all its output and its exit status, without a complaint."""
    done = lab.run(
        "exec", "node1", "--", "sh", "-c", "head -c 100000; exit 5", given="y\n" * 1_000_000, status=5
    )
    assert (len(done.stdout), done.stderr) == (100_000, "")


def test_exec_reports_a_missing_program(lab: Lab) -> None:
    """A program that the node does not have is exit status 127."""
    lab.run("exec", "node1", "--", "no-such-program", status=127)


def test_exec_gives_a_terminal(lab: Lab) -> None:
    """A user at a terminal gets one on the node too: with its size, job control, and the exit status at the end."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (33, 123))
    shell = lab.start(
        "exec", "node1", "--", "sh", "-c", "stty size; sleep 100; echo $?; exit 9", terminal=theirs
    )
    os.close(theirs)
    printed = b""
    while b"33 123" not in printed:
        printed += os.read(ours, 1000)

    def interrupted() -> int | None:
        # Again and again, as people do: a shell that is just starting its next program lets that run to its end.
        os.write(ours, b"\x03")
        with suppress(subprocess.TimeoutExpired):
            return shell.wait(1)
        return None

    assert eventually(interrupted) == 130
    os.close(ours)


def test_an_unknown_node_is_said(lab: Lab) -> None:
    """Running something on a node that is not there fails with a message."""
    assert "the node node9 does not run" in lab.run("exec", "node9", "--", "true", status=1).stderr


def test_a_node_sees_only_its_own_files(lab: Lab) -> None:
    """Neither the lab's state nor another node's files can be found on a node."""
    lab.on("node2", "echo secret-of-node2 > /var/lib/lanloom/mine")
    mounts = lab.on("node1", "ls /mnt /run; ls /var/lib/lanloom")
    assert "mine" not in mounts
    assert "state" not in mounts
    lab.on("node2", "rm /var/lib/lanloom/mine")


def test_the_host_stays_untouched(lab: Lab) -> None:
    """None of the lab's links can be seen from the host."""
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not {"mgmt", "switch", "vec0", "dhcp-mgmt", "dhcp-switch"} & links


def test_an_agent_that_is_stopped_and_killed(lab: Lab) -> None:
    """An agent that is stopped, continued and killed by signals is started again, as one that is just killed."""

    def agent() -> dict[str, Any]:
        return programs(lab.node("node1"))["agent"]

    def pid() -> str:
        return lab.on("node1", "pgrep -of '^python3 -m lanloom agent'").strip()

    # The test before may have killed it, too: it is counted by then, and a script first, which Python replaces.
    eventually(lambda: agent()["running"])
    found = eventually(pid)
    before = eventually(agent)["restarts"]
    lab.on("node1", f"kill -STOP {found}; kill -CONT {found}; kill -KILL {found}")
    eventually(lambda: agent()["restarts"] == before + 1)
    eventually(lambda: agent()["running"])
    eventually(lambda: lab.run("status"))
    eventually(pid)


def test_a_node_that_lost_a_nic_reboots(lab: Lab) -> None:
    """A node whose NIC was deleted has it again after a reboot, and nothing of the node of before lives on."""
    lab.on("node3", "setsid flock /var/lib/lanloom/alive sleep 10000 >/dev/null 2>&1 </dev/null &")
    eventually(lambda: "busy" in lab.on("node3", "flock -n /var/lib/lanloom/alive true || echo busy"))
    lab.on("node3", "ip link delete eth1")
    lab.run("node", "reboot", "node3")
    lab.on("node3", "ip link show eth1 && flock -n /var/lib/lanloom/alive true && rm /var/lib/lanloom/alive")
    eventually(lambda: ready(lab, "node3") == "True")


def test_files_survive_a_reboot(lab: Lab) -> None:
    """A rebooted node keeps its profiles and loses what was in memory."""
    lab.on(
        "node3", "echo kept > /etc/NetworkManager/mark; echo lost > /run/mark; ip link add gone type bridge"
    )
    lab.run("node", "reboot", "node3")
    assert lab.on(
        "node3", "cat /etc/NetworkManager/mark; cat /run/mark; ls -d /sys/class/net/*/ | cut -d/ -f5"
    ).split() == [
        "kept",
        "eth0",
        "eth1",
        "eth2",
        "eth3",
        "eth4",
        "eth5",
        "lo",
        "mgmt-bo",
        "mgmt-br.2021",
        "mgmt-br",
    ]
    lab.on("node3", "rm /etc/NetworkManager/mark")


def test_a_stopped_node_is_off(lab: Lab) -> None:
    """A stopped node is not Ready, answers no request, and comes back with `start`."""
    lab.run("node", "stop", "node3")
    assert lab.node("node3")["state"] == "stopped"
    assert ready(lab, "node3") == "False"
    assert "does not run" in lab.run("exec", "node3", "--", "true", status=1).stderr
    lab.on("node1", "ping -c 1 -W 1 172.31.255.13", status=1)
    lab.run("node", "start", "node3")
    assert ready(lab, "node3") == "True"
    eventually(lambda: lab.reaches("node1", "172.31.255.13"))


def test_a_node_is_powered_off_under_a_program(lab: Lab) -> None:
    """A node can be powered off where a program of it was given up, and while another one runs."""
    waits = ("exec", "node3", "--", "sh", "-c", "sleep 999 & sleep 999")
    given_up = lab.start(*waits)
    eventually(lambda: "sleep" in lab.on("node3", "pgrep -l sleep", status=None))
    given_up.kill()
    given_up.wait()
    eventually(lambda: "999" not in lab.on("node3", "pgrep -fa '^sleep 999'", status=None))
    running = lab.start(*waits)
    eventually(lambda: "999" in lab.on("node3", "pgrep -fa '^sleep 999'", status=None))
    lab.run("node", "stop", "node3")
    assert running.wait(timeout=60)
    lab.run("node", "start", "node3")
    lab.on("node3", "true")


def test_a_node_comes_and_goes(lab: Lab) -> None:
    """An added node joins the cluster; a removed one leaves no object, no files and no links."""
    lab.run("node", "add", "guest")
    assert ready(lab, "guest") == "True"
    lab.on("guest", "hostname | grep -x guest")
    lab.run("node", "remove", "guest")
    assert "guest" not in lab.kubectl("get", "nodes", "-o", "name")
    assert not (lab.state / "nodes/guest").exists()


@pytest.mark.parametrize(
    ("action", "name", "message"),
    [
        ("start", "node1", "runs already"),
        ("add", "node1", "has a node node1 already"),
        ("stop", "node9", "has no node 'node9'"),
        ("add", "Not-A-Name", "can't be the name of a node"),
    ],
)
def test_a_senseless_wish_is_refused(lab: Lab, action: str, name: str, message: str) -> None:
    """What can't be done with a node is refused with a message, and nothing changes."""
    before = [node["name"] for node in lab.status()["nodes"]]
    assert message in lab.run("node", action, name, status=1).stderr
    assert [node["name"] for node in lab.status()["nodes"]] == before


def test_a_killed_program_is_started_again(lab: Lab) -> None:
    """NetworkManager, killed on a node, runs again shortly after, and the status counts it."""
    lab.on("node2", "kill -KILL $(pidof NetworkManager)")

    def restarted() -> bool:
        manager = programs(lab.node("node2")).get("NetworkManager", {})
        return bool(manager.get("restarts") and manager["running"])

    eventually(restarted)
    eventually(
        lambda: lab.run("exec", "node2", "--", "nmcli", "general", "status", status=None).returncode == 0
    )


def test_logs_are_kept(lab: Lab) -> None:
    """What NetworkManager of a node logs can be read on the host."""
    assert "NetworkManager (version" in lab.run("logs", "node1", "--of", "NetworkManager").stdout


def test_the_kubeconfig_can_be_exported(lab: Lab) -> None:
    """`kubeconfig` prints a path, or a line for the shell."""
    assert lab.run("kubeconfig").stdout.strip() == str(lab.state / "kubeconfig")
    assert lab.run("kubeconfig", "--export").stdout.strip() == f"export KUBECONFIG={lab.state / 'kubeconfig'}"
