"""`-w` of a list: what is there, then each row that changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lanloom.cli.watching import Seen
from tests.cli.cluster import Cluster
from tests.features.ipam.cli.networks import NET1, done


def test_which_rows_are_fresh() -> None:
    """A row is fresh if it was not there in this form before; what is gone and comes back is fresh again."""
    seen = Seen()
    assert (seen.fresh({}), seen.is_first) == ([], True)
    assert (seen.fresh({"a 1": 1, "b 1": 2}), seen.is_first) == ([1, 2], False)
    assert seen.fresh({"a 1": 1, "b 2": 3}) == [3]
    assert seen.fresh({"b 2": 3}) == []
    assert seen.fresh({"a 1": 1, "b 2": 3}) == [1]


@contextmanager
def watching(cluster: Cluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A list that is watched, until it is interrupted as by Ctrl-C."""
    command = [sys.executable, "-m", "lanloom", *words, "-w"]
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_list_is_watched(cluster: Cluster) -> None:
    """A watched list prints its rows once, and then each row that is new or differs; an interrupt ends it."""
    done(cluster, *NET1)
    with watching(cluster, "network", "list", "-o", "name,tags", "--separator", ":") as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert [next(lines), next(lines)] == ["Network:Tags\n", "net1:\n"]
        done(cluster, "add", "net2")
        assert next(lines) == "net2:\n"
        done(cluster, "tag", "add", "net1", "blue")
        assert next(lines) == "net1:blue\n"
    assert process.returncode == 130
