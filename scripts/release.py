"""Make a release in dist/ (`make release`): what users get, the same bytes from the same sources.

A wheel and the sources, the chart, all manifests in one file, a bill of materials, notes from the changelog, images and
plugins for krew for each architecture, and checksums of all of it. Times in archives are that of the last commit
(SOURCE_DATE_EPOCH, if it is set).
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from lanloom import __version__
from scripts.image.bill import bill_of_materials
from scripts.image.build import source_epoch

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy/chart/lanloom"
REQUIREMENTS = ROOT / "requirements/run.txt"
CHANGELOG = ROOT / "CHANGELOG.md"

UNRELEASED = "Unreleased"
"""The heading of what has no version yet."""


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
    install = (sys.executable, "-m", "lanloom", "install")
    manifests = subprocess.run(install, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    (target / f"{name}.yaml").write_text(manifests)
    (target / f"{name}.cdx.json").write_text(bill_of_materials(REQUIREMENTS.read_text()))
    (target / "NOTES.md").write_text(notes(CHANGELOG.read_text(), __version__))
    binaries(target, epoch)
    (target / "SHA256SUMS").write_text("".join(_sums(target)))


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
