"""A release: whole, the same each time, and usable without a checkout."""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from lanloom import __version__
from scripts.image.bill import bill_of_materials
from scripts.release import REQUIREMENTS, ROOT, notes, release

EPOCH = "1767225600"
IMAGE = f"lanloom-{__version__}-image-amd64.tar"
NAME = f"lanloom-{__version__}"
WHEEL = f"{NAME}-py3-none-any.whl"


def image(target: Path, epoch: int) -> None:
    """Write what stands for the images, which have tests of their own."""
    (target / IMAGE).write_text(str(epoch))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release."""
    target = tmp_path_factory.mktemp("release") / "dist"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        release(target, image)
    return target


@pytest.mark.slow
def test_the_same_sources_give_the_same_release(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two releases of the same sources have the same checksums, which name every file."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    release(tmp_path / "again", image)
    sums = (made / "SHA256SUMS").read_text()
    assert sums == (tmp_path / "again/SHA256SUMS").read_text()
    named = {line.split()[1] for line in sums.splitlines()}
    assert named == {path.name for path in made.iterdir()} - {"SHA256SUMS"}
    assert {
        WHEEL,
        f"{NAME}.tar.gz",
        f"{NAME}.tgz",
        f"{NAME}.yaml",
        f"{NAME}.cdx.json",
        "NOTES.md",
        IMAGE,
    } == named


@pytest.mark.slow
def test_the_wheel_works_without_a_checkout(made: Path, tmp_path: Path) -> None:
    """An installed wheel has examples, and prints the manifests of the release."""
    pip = [
        "-m",
        "pip",
        "install",
        "-qq",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        str(tmp_path),
    ]
    subprocess.run([sys.executable, *pip, str(made / WHEEL)], check=True)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    where = "import lanloom; print(lanloom.__file__)"
    command = [sys.executable, "-c", where]
    printed = subprocess.run(
        command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert printed.stdout.strip() == str(tmp_path / "lanloom/__init__.py")
    command = [sys.executable, "-m", "lanloom", "install"]
    printed = subprocess.run(
        command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert printed.stdout == (made / f"{NAME}.yaml").read_text()
    assert (tmp_path / "lanloom/examples/lan.yaml").is_file()


@pytest.mark.slow
def test_the_sources_are_whole(made: Path, tmp_path: Path) -> None:
    """A wheel that is built from the sources of the release is the wheel of the release."""
    subprocess.run(["tar", "-xzf", made / f"{NAME}.tar.gz", "-C", tmp_path], check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(build, cwd=tmp_path / NAME, env=environment, check=True, capture_output=True)
    assert (tmp_path / WHEEL).read_bytes() == (made / WHEEL).read_bytes()


@pytest.mark.slow
def test_the_chart_is_of_this_version(made: Path) -> None:
    """The archive of the chart has its files below its name, as helm wants it, and the version of the release."""
    with tarfile.open(made / f"{NAME}.tgz") as tar:
        assert all(name.startswith("lanloom/") for name in tar.getnames())
        about = tar.extractfile("lanloom/Chart.yaml")
        assert about is not None
        assert yaml.safe_load(about.read())["version"] == __version__


def test_the_bill_has_every_package() -> None:
    """The bill of materials names each package that is installed with Lanloom, with version, licence and hashes."""
    bill = json.loads(bill_of_materials(REQUIREMENTS.read_text()))
    pinned = {line.split()[0] for line in REQUIREMENTS.read_text().splitlines() if "==" in line}
    assert {f"{item['name']}=={item['version']}" for item in bill["components"]} == pinned
    assert all(item["hashes"] and item["licenses"] for item in bill["components"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# C\n\n## 9.9.9 (2026)\n\nnew\n\n## 9.9.8\n\nold\n", "# Lanloom 9.9.9\n\nnew\n"),
        ("# C\n\n## Unreleased\n\nnow\n\n## 9.9.8\n\nold\n", "# Lanloom 9.9.9\n\nnow\n"),
    ],
)
def test_the_notes_are_those_of_the_version(text: str, expected: str) -> None:
    """The notes are the section of the version, or what has none yet."""
    assert notes(text, "9.9.9") == expected


def test_no_release_without_notes() -> None:
    """A changelog that says nothing of the version is an error."""
    with pytest.raises(ValueError, match="nothing of"):
        notes("# C\n\n## 9.9.8\n\nold\n", "9.9.9")


MENTION = re.compile(r"lanloom[:-](\d+\.\d+\.\d+)|Lanloom (\d+\.\d+\.\d+)|newTag: (\d+\.\d+\.\d+)")


def test_pages_name_this_version() -> None:
    """Every command of the pages, and what the code prints, names the version of the package."""
    places = [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("deploy/**/*.*"),
    ]
    named = {
        (path.name, next(filter(None, found)))
        for path in places
        if path.is_file()
        for found in MENTION.findall(path.read_text())
    }
    assert len(named) > 6
    assert {version for _, version in named} == {__version__}
    assert f"This is version {__version__.rpartition('.')[0]}:" in (ROOT / "README.md").read_text()


def test_the_changelog_has_this_version() -> None:
    """The newest section is this version's with its date, or that of what has no version yet."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", released[0])
    assert len(set(headings)) == len(headings)
