"""Multus' configuration in a node's CNI directory, as the agent finds it."""

import asyncio
import os
from pathlib import Path

import pytest

from lanloom.api.lan import MultusReport
from lanloom.features.liveupdate.agent.multus import MultusReader

ON = '{"type": "multus-shim", "namespaceIsolation": true, "globalNamespaces": "b, a"}'
OFF = '{"type": "multus"}'


def read(directory: Path) -> MultusReport | None:
    """What the agent finds."""
    return asyncio.run(MultusReader(directory).read())


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"10-flannel.conflist": '{"plugins": [{"type": "flannel"}]}'}, None),
        ({"00-multus.conf": OFF}, ("00-multus.conf", False, "default")),
        ({"00-multus.conf": ON, "10-flannel.conflist": "{}"}, ("00-multus.conf", True, "a,b")),
        (
            {"70-multus.conflist": f'{{"plugins": [{ON}]}}', "80-x.conf": OFF},
            ("70-multus.conflist", True, "a,b"),
        ),
        ({"00-broken.conf": "{", "70-multus.conf": ON}, ("70-multus.conf", True, "a,b")),
        ({"00-multus.conf.bak": ON, "multus.kubeconfig": ON}, None),
        ({"00-large.conf": " " * 300_000, "70-multus.json": OFF}, ("70-multus.json", False, "default")),
    ],
)
def test_what_is_found(files: dict[str, str], found: tuple[str, bool, str] | None, tmp_path: Path) -> None:
    """The first file of Multus that a runtime would read counts; what can't be read is passed over."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    report = read(tmp_path)
    assert (report and (report.file, report.namespace_isolation, report.global_namespaces)) == found


def test_links_and_other_things(tmp_path: Path) -> None:
    """No link is followed, no read waits for a pipe, and a directory that is missing says nothing."""
    (tmp_path / "elsewhere").write_text(ON)
    (tmp_path / "00-multus.conf").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "01-multus.conf")
    (tmp_path / "02-multus.conf").mkdir()
    assert read(tmp_path) is None
    assert read(tmp_path / "missing") is None
