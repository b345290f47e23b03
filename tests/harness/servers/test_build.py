"""Where the binaries of real servers are taken from."""

from pathlib import Path

import pytest

from tests.harness.servers.build import binaries, kubelet


def test_a_directory_can_be_named_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory in KUBEBUILDER_ASSETS is found from wherever a server is started, and nothing is built."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "bin/k8s")
    assert binaries(tmp_path / "cache", print) == tmp_path / "bin/k8s"


def test_a_kubelet_beside_them_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kubelet in the directory of KUBEBUILDER_ASSETS is taken, and nothing is built."""
    (tmp_path / "kubelet").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert kubelet(tmp_path / "cache", print) == tmp_path / "kubelet"
