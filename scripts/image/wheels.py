"""The middle layer: the pinned wheels, unpacked as pip would, for any architecture.

pip fetches them and checks their hashes. It installs nothing, because what it writes depends on its version.
"""

import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from lanloom_lab.assets import Progress, publish, run
from scripts.image.files import File, Files, canonical

PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
"""The names of Debian's architectures in those of wheels."""

GLIBC = 36
"""The minor version of Debian 12's C library, up to which wheels may be built."""

LEFT_OUT = ("uvloop",)
"""Packages that no process of the image needs: of 14 MB, and `lanloom serve` runs without it, only slower."""

SITE = "opt/lanloom/venv/lib/python3.11/site-packages"
REMEDY = "Check the network and pip's configuration, then try again."

_DATA = re.compile(r"[^/]+\.data/(?P<scheme>[^/]+)/(?P<path>.+)")
_LEFT_OUT = re.compile(
    r".*\.(pyi|pyx|pxd|pxi|c|h|cc|cpp|a)"
    r"|(?!lanloom).*/tests?/.*|(bitarray|multidict)/_?test.*|.*\.dist-info/RECORD"
    r"|pygments/lexers/(?!__init__|_mapping|special|python).*"
)
"""Sources, tests and languages that nothing reads at run time, and checksums of files that are not all there."""


def wheels(cache: Path, requirements: Path, architecture: str, progress: Progress) -> list[Path]:
    """Return the wheels that the requirements pin; the first call for these ever fetches them."""
    key = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]

    def fetch(partial: Path) -> None:
        progress(f"fetching pinned wheels ({architecture})")
        run([*_download(architecture), "--dest", partial, "--requirement", requirements], REMEDY)

    directory = publish(cache / f"image-wheels-{architecture}-{key}", fetch, progress)
    found = sorted(directory.glob("*.whl"))
    return [path for path in found if path.name.partition("-")[0] not in LEFT_OUT]


def _download(architecture: str) -> list[str]:
    machine = PLATFORMS[architecture]
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    names += [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")]
    target = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"]
    platforms = [word for name in names for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "--no-input", "download"]
    return [*pip, "--require-hashes", "--no-deps", *target, *platforms]


def unpacked(wheel: Path) -> Files:
    """Return the modules of a wheel and what is next to them; programs and headers are left out."""
    return dict(_members(wheel.read_bytes()))


def _members(wheel: bytes) -> Iterator[tuple[str, File]]:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for member in archive.infolist():
            path = member.filename
            if match := _DATA.fullmatch(path):
                if match["scheme"] not in ("purelib", "platlib"):
                    continue
                path = match["path"]
            if member.is_dir() or _LEFT_OUT.fullmatch(path):
                continue
            mode = 0o755 if member.external_attr >> 16 & 0o100 else 0o644
            yield f"{SITE}/{canonical(path)}", File(archive.read(member), mode)


def installed(paths: list[Path]) -> Files:
    """Return the virtual environment with these wheels."""
    files: Files = {
        "opt/lanloom/venv/bin/python": File(target="/usr/bin/python3.11"),
        "opt/lanloom/venv/pyvenv.cfg": File(b"home = /usr/bin\ninclude-system-site-packages = false\n"),
    }
    for path in paths:
        files |= unpacked(path)
    return files
