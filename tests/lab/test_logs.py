"""Reading the logs of a node's programs."""

from pathlib import Path

import pytest

from lanloom_lab.client import find, read
from lanloom_lab.errors import Refused
from lanloom_lab.layout import Layout, log_name


def test_a_followed_log_goes_on(tmp_path: Path) -> None:
    """Following gives what was there, and then what is added."""
    log = tmp_path / "agent.log"
    log.write_bytes(b"one\n")
    pauses = iter([b"two\n", b"three\n"])

    def somebody_writes(seconds: float) -> None:
        with log.open("ab") as file:
            file.write(next(pauses))

    pieces = read(log, follow=True, wait=somebody_writes)
    assert [next(pieces) for _ in range(3)] == [b"one\n", b"two\n", b"three\n"]


def test_reading_ends(tmp_path: Path) -> None:
    """Without following, reading ends with the file."""
    (tmp_path / "agent.log").write_bytes(b"one\n")
    assert b"".join(read(tmp_path / "agent.log", follow=False)) == b"one\n"


def test_an_unknown_log_is_named(tmp_path: Path) -> None:
    """Asking for a log that is not there names those that are."""
    layout = Layout(tmp_path)
    logs = layout.disk("node1") / "log"
    logs.mkdir(parents=True)
    (logs / "agent.log").touch()
    assert find(layout, "node1", "agent") == logs / "agent.log"
    with pytest.raises(Refused, match="These have: agent"):
        find(layout, "node1", "kubelet")
    with pytest.raises(Refused, match="no logs of a node 'node2'"):
        find(layout, "node2", "agent")


def test_a_pod_with_the_longest_name_has_a_log(tmp_path: Path) -> None:
    """The log of a pod can be written and found, however long the pod's name is."""
    layout, pod = Layout(tmp_path), "p" * 253
    logs = layout.disk("node1") / "log"
    logs.mkdir(parents=True)
    (logs / log_name(pod)).touch()
    assert find(layout, "node1", pod) == logs / log_name(pod)
