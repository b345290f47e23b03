"""The completion script in a real bash on a terminal: what a line becomes by Tab."""

import os
import pty
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lanloom.cli.completion import SCRIPT

pytestmark = pytest.mark.slow

PROGRAM = f"""#!/bin/bash
if [[ -n $_LANLOOM_COMPLETE ]]; then
    exec {shlex.quote(sys.executable)} -m lanloom "$@"
fi
printf 'typed<%s>' "$@"
echo ' end'
"""
CONTEXTS = ("arn:aws:eks:eu-west-1:1:cluster/lab", "admin@harvester", "plain")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[int]:
    """A terminal with a bash in which `lanloom` prints its arguments, and knows contexts of a kubeconfig."""
    (tmp_path / "lanloom").write_text(PROGRAM)
    (tmp_path / "lanloom").chmod(0o755)
    (tmp_path / "script").write_text(SCRIPT)
    (tmp_path / "values.yaml").touch()
    contexts = [{"name": name, "context": {"cluster": "x", "user": "x"}} for name in CONTEXTS]
    (tmp_path / "config").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "contexts": contexts})
    )
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "config"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "INPUTRC": "/dev/null",
        "TERM": "dumb",
        "COLUMNS": "500",
    }
    pid, descriptor = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
    os.write(descriptor, b"source script; stty cols 500; echo rea''dy\n")
    read_until(descriptor, "ready")
    yield descriptor
    os.close(descriptor)
    os.waitpid(pid, 0)


def read_until(descriptor: int, text: str) -> str:
    """What is printed until a text comes."""
    found = ""
    while text not in found:
        found += os.read(descriptor, 4096).decode(errors="replace")
    return found


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("netw", "network"),
        ("network li", "network list"),
        ("network list -o js", "network list -o json"),
        ("network list --output=js", "network list --output=json"),
        ("network list -o custom-c\tfoo", "network list -o custom-columns=foo"),
        ("network list --output=\tjson", "network list --output=json"),
        ("network list --output js", "network list --output json"),
        ("network list --outp", "network list --output"),
        ("install --distribution=k", "install --distribution=k3s"),
        ("install --values=val", "install --values=values.yaml"),
        ("network list --context=pl", "network list --context=plain"),
        ("network list --context arn:aws:e", f"network list --context {CONTEXTS[0]}"),
        ("network list --context=arn:aws:e", f"network list --context={CONTEXTS[0]}"),
        ("network list --context admin@", f"network list --context {CONTEXTS[1]}"),
        ("network list --context=admin@har", f"network list --context={CONTEXTS[1]}"),
        (
            "network list --context admin@harvester --output=js",
            f"network list --context {CONTEXTS[1]} --output=json",
        ),
    ],
)
def test_what_a_line_becomes(typed: str, becomes: str, terminal: int) -> None:
    """Tab completes the last word of a line, also behind a character at which readline cuts words."""
    os.write(terminal, f"lanloom {typed}\t\n".encode())
    printed = "".join(f"typed<{word}>" for word in becomes.split())
    assert f"{printed} end" in read_until(terminal, "> end")
