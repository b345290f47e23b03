"""The plugin for krew: unpacked as krew does, and called by kubectl."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom import __version__
from lanloom_lab.assets import default_cache
from scripts import krew

EPOCH = 1767225600
HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the archive for this machine and the manifest."""
    target = tmp_path_factory.mktemp("release")
    krew.write(target, default_cache(), EPOCH, print, [HERE])
    return target


def about(release: Path) -> Raw:
    """The manifest."""
    found: Raw = yaml.safe_load((release / "krew-lanloom.yaml").read_text())
    return found


def install(release: Path, root: Path) -> Path:
    """Do what `kubectl krew install --manifest --archive` does; return the directory for $PATH.

    The platform is chosen, the checksum compared, the archive unpacked, files are moved by their patterns, and the
    program is linked under the name by which kubectl finds it.
    """
    plugin = about(release)
    name, spec = plugin["metadata"]["name"], plugin["spec"]
    (chosen,) = (
        item for item in spec["platforms"] if item["selector"]["matchLabels"] == {"os": "linux", "arch": HERE}
    )
    archive = release / chosen["uri"].rpartition("/")[2]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == chosen["sha256"]
    unpacked, store = root / "download", root / "store" / name / spec["version"]
    store.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked)
    for item in chosen["files"]:
        for path in unpacked.glob(item["from"]):
            path.rename(store / item["to"] / path.name)
    programs = root / "bin"
    programs.mkdir()
    (programs / f"kubectl-{name.replace('-', '_')}").symlink_to(store / chosen["bin"])
    return programs


@pytest.mark.slow
def test_kubectl_runs_the_plugin(release: Path, tmp_path: Path, real_binaries: Path) -> None:
    """kubectl finds the installed plugin, which needs no package of this environment and knows its own name."""
    programs = install(release, tmp_path)
    assert (programs / "kubectl-lanloom").read_bytes() == krew.COMMAND
    python = tmp_path / "python"
    python.mkdir()
    (python / "python3").symlink_to(Path(sys.base_prefix) / "bin/python3.11")
    path = os.pathsep.join(map(str, (programs, python, real_binaries, "/usr/bin", "/bin")))
    environment = {"PATH": path, "HOME": str(tmp_path), "COLUMNS": "100"}

    def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(real_binaries / "kubectl"), *words]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert str(programs / "kubectl-lanloom") in kubectl("plugin", "list").stdout
    assert kubectl("lanloom", "--version").stdout == f"lanloom, version {__version__}\n"
    assert kubectl("lanloom", "network", "--help").stdout.startswith("Usage: kubectl lanloom network ")
    assert "kind: Namespace" in kubectl("lanloom", "install").stdout
    refused = kubectl("lanloom", "network", "list", "--kubeconfig", "none")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)


def test_another_python_is_named(tmp_path: Path) -> None:
    """Where Python has another version and 3.11 is not there, the plugin names it."""
    script = tmp_path / "script"
    script.write_bytes(krew.COMMAND.replace(b"(3, 11)", b"(3, 99)"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: this plugin needs python3.99, which is not installed\n",
    )


def test_the_manifest_is_one_for_krew() -> None:
    """It has what krew validates: a safe name, a version with v, one platform of a kind, addresses and checksums."""
    text = krew.manifest({"amd64": "0" * 64, "arm64": "1" * 64}, "https://x.example/y")
    plugin = yaml.safe_load(text)
    spec = plugin["spec"]
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert re.fullmatch(r"[\w-]+", plugin["metadata"]["name"])
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"])
    assert spec["shortDescription"] and len(spec["shortDescription"]) <= 50
    labels = [item["selector"]["matchLabels"] for item in spec["platforms"]]
    assert labels == [{"os": "linux", "arch": "amd64"}, {"os": "linux", "arch": "arm64"}]
    for item in spec["platforms"]:
        assert item["uri"].startswith(f"https://x.example/y/v{__version__}/kubectl-lanloom-")
        assert re.fullmatch(r"[0-9a-f]{64}", item["sha256"])
        assert item["bin"] == "kubectl-lanloom"
        assert item["files"] == [{"from": "*", "to": "."}]
