"""The image from its parts. Layers whose inputs did not change come from the cache."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from lanloom import __version__
from lanloom_lab.assets import Progress, publish
from scripts.image import debian, oci, wheels
from scripts.image.bill import image_bill
from scripts.image.bytecode import compiled
from scripts.image.files import File, Files, layer
from scripts.image.shim import PLACE, shim

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements/run.txt"
ARCHITECTURES = tuple(wheels.PLATFORMS)

SCRATCH = {"tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "var/tmp": 0o1777}
"""Directories without files, with their modes."""

COMMAND = File(
    b"#!/opt/lanloom/venv/bin/python\nfrom lanloom.entry import main\n\nmain()\n",
    0o755,
)
PATH = "/opt/lanloom/venv/bin:/usr/bin:/usr/sbin:/bin:/sbin"


class Built(NamedTuple):
    """An image: its archive, its digest, the size of its files, and its bill of materials."""

    archive: bytes
    digest: str
    unpacked: int
    bill: str


def build(cache: Path, architecture: str, epoch: int, progress: Progress) -> Built:
    """Build the image. The first call ever fetches packages and wheels."""
    found = debian.packages(cache, architecture, progress)
    pinned = wheels.wheels(cache, REQUIREMENTS, architecture, progress)
    parts = {
        "Debian": (_digests(item.archive for item in found), lambda: debian.base(found, cache, progress)),
        "wheels": (_digests(pinned), lambda: wheels.installed(pinned)),
    }
    layers = [
        _cached(cache, f"{title}-{architecture}", inputs, make, progress)
        for title, (inputs, make) in parts.items()
    ]
    layers.append(_finished("Lanloom", own(cache, architecture, epoch, progress)))
    image = oci.Image(
        "lanloom", __version__, architecture, _date(epoch), _run(), [each for each, _ in layers]
    )
    digest = oci.digest(oci.manifest(image))
    bill = image_bill(REQUIREMENTS.read_text(), found, digest)
    return Built(oci.archive(image), digest, sum(size for _, size in layers), bill)


def own(cache: Path, architecture: str, epoch: int, progress: Progress) -> Files:
    """Return Lanloom itself: the wheel of the release, its command, and the CNI shim."""
    files = own_wheel(epoch)
    files |= compiled(files)
    files |= {"opt/lanloom/venv/bin/lanloom": COMMAND}
    return files | {PLACE: File(shim(cache, architecture, progress), 0o755)}


def own_wheel(epoch: int) -> Files:
    """Return the files of the wheel of the release."""
    with tempfile.TemporaryDirectory() as directory:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", directory]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
        subprocess.run(build, cwd=ROOT, env=environment, check=True, capture_output=True)
        return wheels.unpacked(next(Path(directory).glob("*.whl")))


def _run() -> oci.Raw:
    return {
        "User": "65534:65534",
        "Env": [f"PATH={PATH}"],
        "Entrypoint": ["/opt/lanloom/venv/bin/python", "-m", "lanloom"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": "lanloom",
            "org.opencontainers.image.version": __version__,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


Layer = tuple[oci.Layer, int]
"""A layer, and the size of its files."""


def _cached(cache: Path, title: str, inputs: str, make: Callable[[], Files], progress: Progress) -> Layer:
    key = hashlib.sha256(f"{inputs}{_digests(Path(__file__).parent.glob('*.py'))}".encode()).hexdigest()[:12]

    def write(partial: Path) -> None:
        progress(f"making the layer {title}")
        files = make()
        finished, size = _finished(title, files | compiled(files))
        (partial / "blob").write_bytes(finished.blob)
        (partial / "about").write_text(f"{finished.diff_id} {size}")

    directory = publish(cache / f"image-layer-{title}-{key}", write, progress)
    diff_id, size = (directory / "about").read_text().split()
    return oci.Layer((directory / "blob").read_bytes(), diff_id, title.partition("-")[0]), int(size)


def _finished(title: str, files: Files) -> Layer:
    size = sum(len(file.content) for file in files.values())
    return oci.Layer.of(layer(files, SCRATCH if title.startswith("Debian") else {}), title), size


def _digests(paths: Iterable[Path]) -> str:
    return " ".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths))


def _date(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def source_epoch() -> int:
    """Return the time that archives have: SOURCE_DATE_EPOCH, or that of the last commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _last_commit())


def _last_commit() -> str:
    words = ("git", "log", "-1", "--format=%ct")
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
