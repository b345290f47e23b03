"""What a program in a sandbox can do to the node."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lanloom.node.sandbox import Sandbox, start

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

HOSTILE = (Path(__file__).parent / "hostile.py").read_text()
DENIED = "Operation not permitted"
READ_ONLY = "Read-only file system"
ABSENT = "No such file or directory"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The agent's directories: programs, a configuration, state and secrets."""
    for name in ("bin", "conf", "state", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret/token").write_text("s3cret")
    program = tmp_path / "bin/hostile"
    program.write_text(f"#!/usr/bin/python3 -IS\n{HOSTILE}")
    program.chmod(0o755)
    yield tmp_path


def tried(place: Path, **more: Any) -> dict[str, Any]:
    """What came of each attempt of the hostile program."""
    inside = Path("/var/lib/cni/networks/blue")
    sandbox = Sandbox(
        readable=(place / "bin", place / "conf", place / "missing"),
        writable={inside: place / "state"},
        **more,
    )
    abstract = f"\0{place}"
    asked = {
        "programs": str(place / "bin"),
        "readable": str(place / "conf"),
        "state": str(inside),
        "secret": str(place / "secret/token"),
        "agent": os.getpid(),
        "abstract": abstract,
    }
    with socket.socket(socket.AF_UNIX) as listening, (place / "secret/token").open() as kept:
        listening.bind(abstract)
        listening.listen()
        os.set_inheritable(kept.fileno(), True)
        process = start(place / "bin/hostile", {"PATH": os.defpath}, sandbox)
        output, complaint = process.communicate(json.dumps(asked).encode())
    assert process.returncode == 0, complaint.decode()
    found: dict[str, Any] = json.loads(output)
    return found


EXPECTED = {
    "list /dev": ["null"],
    "write program": READ_ONLY,
    "write /usr": READ_ONLY,
    "write /": READ_ONLY,
    "write readable": READ_ONLY,
    "write state": "written",
    "write /tmp": "written",
    "read secret": ABSENT,
    "mount": DENIED,
    "unmount": DENIED,
    "remount": DENIED,
    "chroot": DENIED,
    "mknod": DENIED,
    "setuid": DENIED,
    "hostname": DENIED,
    "network namespace": DENIED,
    "raw socket": DENIED,
    "limits": DENIED,
    "regain": DENIED,
    "kill agent": "No such process",
    "parent": 0,
    "descriptors": [],
    "links": ["lo"],
    "abstract": "Connection refused",
    "files": [256, 256],
}


def test_hostile_program(place: Path) -> None:
    """A program sees its own, writes its state, gets no right back, and reaches neither agent nor network."""
    found = tried(place)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    system = {"bin", "dev", "lib", "lib32", "lib64", "sbin", "tmp", "usr", "var"}
    assert set(found["list /"]) <= system | {place.parts[1]}
    assert set(found["environment"]) <= {"PATH", "LC_CTYPE"}
    assert found["trace agent"] in ("No such process", DENIED)
    assert (place / "state/x").read_text() == "x" and not (place / "conf/x").exists()
    assert str(place) not in Path("/proc/self/mountinfo").read_text()


def test_network(place: Path) -> None:
    """A program that is on the network sees the agent's."""
    assert tried(place, on_network=True)["links"] == [name for _, name in socket.if_nameindex()]


@pytest.mark.parametrize("fault", ["program", "state"])
def test_missing(place: Path, fault: str) -> None:
    """A program that is not there, and a directory that can't be given to it, are errors that name them."""
    program = place / "bin" / ("none" if fault == "program" else "hostile")
    writable = {} if fault == "program" else {Path("/state"): place / "none"}
    with pytest.raises(OSError, match="none"):
        start(program, {}, Sandbox(readable=(place / "bin",), writable=writable))
