"""Make a release in dist/ (`make release`): what users get, the same bytes from the same sources.

A wheel and the sources, the chart, all manifests in one file, a bill of materials, notes from the changelog, images and
plugins for krew for each architecture, and checksums of all of it. Times in archives are that of the last commit
(SOURCE_DATE_EPOCH, if it is set).
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from lanloom import __version__

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy/chart/lanloom"
REQUIREMENTS = ROOT / "requirements/run.txt"
CHANGELOG = ROOT / "CHANGELOG.md"

UNRELEASED = "Unreleased"
"""The heading of what has no version yet."""

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def release(target: Path, binaries: Callable[[Path, int], None]) -> None:
    """Write everything into a new directory; `binaries` writes what depends on the architecture."""
    epoch = source_epoch()
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(target.resolve())],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    name = f"lanloom-{__version__}"
    (target / f"{name}.tgz").write_bytes(archive(CHART, "lanloom", epoch))
    (target / f"{name}.yaml").write_text(_output(sys.executable, "-m", "lanloom", "install"))
    (target / f"{name}.cdx.json").write_text(bill_of_materials(REQUIREMENTS.read_text()))
    (target / "NOTES.md").write_text(notes(CHANGELOG.read_text(), __version__))
    binaries(target, epoch)
    (target / "SHA256SUMS").write_text("".join(_sums(target)))


def source_epoch() -> int:
    """Return the time that archives have: SOURCE_DATE_EPOCH, or that of the last commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _output("git", "log", "-1", "--format=%ct"))


def _output(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _sums(target: Path) -> Iterator[str]:
    for path in sorted(target.iterdir()):
        yield f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"


def archive(directory: Path, name: str, epoch: int) -> bytes:
    """Return a directory as a .tgz that depends on nothing but names and contents."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{name}/{path.relative_to(directory)}")
                entry.size, entry.mtime, entry.mode = path.stat().st_size, epoch, 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)
    return packed.getvalue()


def bill_of_materials(requirements: str) -> str:
    """Return the packages that run with Lanloom, with versions, licences and hashes, as CycloneDX 1.5.

    The serial number follows from the content.
    """
    components = list(_components(requirements))
    own = {"type": "application", "name": "lanloom", "version": __version__, "licenses": _licences("lanloom")}
    bill: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, requirements + __version__)}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }
    return json.dumps(bill, indent=2) + "\n"


def _components(requirements: str) -> Iterator[dict[str, Any]]:
    found = list(_PINNED.finditer(requirements))
    ends = [*(item.start() for item in found[1:]), len(requirements)]
    for item, end in zip(found, ends, strict=True):
        name, version = item[1], item[2]
        hashes = _HASH.findall(requirements, item.end(), end)
        yield {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower()}@{version}",
            "licenses": _licences(name),
            "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
        }


def _licences(package: str) -> list[dict[str, Any]]:
    """Return the licence as the package names it: an SPDX expression, or any text."""
    try:
        known = metadata(package).json
    except PackageNotFoundError:
        return []
    if expression := known.get("license_expression"):
        return [{"expression": expression}]
    named = [
        text.rpartition(" :: ")[2] for text in known.get("classifier", ()) if text.startswith("License ::")
    ]
    text = named[0] if named else str(known.get("license", "")).partition("\n")[0]
    return [{"license": {"name": text}}] if text else []


def notes(changelog: str, version: str) -> str:
    """Return the changes of a version; those without a version yet where it has none. Raises ValueError without any."""
    parts = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    sections = {part.split()[0].strip("[]"): part.partition("\n")[2].strip() for part in parts}
    found = sections.get(version) or sections.get(UNRELEASED)
    if not found:
        raise ValueError(f"the changelog has nothing of {version}, and no section {UNRELEASED}")
    return f"# Lanloom {version}\n\n{found}\n"


if __name__ == "__main__":
    from lanloom_lab.assets import default_cache
    from scripts import krew
    from scripts.image.__main__ import progress, write_all

    def binaries(target: Path, epoch: int) -> None:
        """Write what depends on the architecture."""
        write_all(target, epoch)
        krew.write(target, default_cache(), epoch, progress)

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    release(place, binaries)
    print((place / "SHA256SUMS").read_text(), end="")
