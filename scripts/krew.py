"""The plugin for krew, kubectl's package manager: an archive for each architecture, and the manifest that names them.

An archive has the command and all packages that it needs, unpacked: nothing is fetched or built when it is installed.
The packages have parts in machine code for CPython 3.11, which is the one thing that the archive lacks.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from lanloom import __version__
from lanloom.entry import PLUGIN
from lanloom_lab.assets import Progress
from scripts.image import wheels
from scripts.image.build import ARCHITECTURES, REQUIREMENTS, ROOT, own_wheel
from scripts.image.files import File, Files, layer, packed

DOWNLOADS = "https://downloads.example/lanloom"
"""Where the files of releases are, unless LANLOOM_DOWNLOADS says otherwise: a directory for each version."""

COMMAND = b"""\
#!/usr/bin/env python3
\"\"\"Run Lanloom as a plugin of kubectl, with the packages beside this file.\"\"\"

import os
import sys

NEEDED = (3, 11)

if sys.version_info[:2] != NEEDED:
    name = "python%d.%d" % NEEDED
    try:
        os.execvp(name, [name, *sys.argv])
    except OSError:
        sys.exit("Error: this plugin needs %s, which is not installed" % name)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))

from lanloom.entry import main

main()
"""

_DESCRIPTION = """\
Lists, plans, traces and changes networks of Lanloom: uplinks and VLANs of nodes, LANs across nodes, isolated networks,
pools of addresses and the NICs of virtual machines. It has the options of kubectl.
"""
_CAVEATS = """\
Needs Python 3.11: python3 of that version, or python3.11.
"""


def files(cache: Path, architecture: str, epoch: int, progress: Progress) -> Files:
    """Return what is in the archive for an architecture."""
    found = dict(own_wheel(epoch))
    for path in wheels.wheels(cache, REQUIREMENTS, architecture, progress):
        found |= wheels.unpacked(path)
    inside = {path.replace(wheels.SITE, "lib", 1): file for path, file in found.items()}
    return inside | {PLUGIN: File(COMMAND, 0o755), "LICENSE": File((ROOT / "LICENSE").read_bytes())}


def archive(cache: Path, architecture: str, epoch: int, progress: Progress) -> bytes:
    """Return the archive for an architecture. The same sources give the same bytes."""
    return packed(layer(files(cache, architecture, epoch, progress)))


def archive_name(architecture: str) -> str:
    """Return the name of the file."""
    return f"{PLUGIN}-{__version__}-linux-{architecture}.tar.gz"


def manifest(sums: Mapping[str, str], downloads: str) -> str:
    """Return the manifest for archives with these checksums, by architecture."""
    about: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "lanloom"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": downloads,
            "shortDescription": "Networks for virtual machines: list, plan, trace",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [_platform(*item, f"{downloads}/v{__version__}") for item in sums.items()],
        },
    }
    return yaml.safe_dump(about, sort_keys=False, width=110)


def _platform(architecture: str, digest: str, place: str) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": f"{place}/{archive_name(architecture)}",
        "sha256": digest,
        "bin": PLUGIN,
        "files": [{"from": "*", "to": "."}],
    }


def write(
    target: Path,
    cache: Path,
    epoch: int,
    progress: Progress,
    architectures: Iterable[str] = ARCHITECTURES,
) -> None:
    """Write the archives of these architectures, and the manifest."""
    sums = {}
    for architecture in architectures:
        content = archive(cache, architecture, epoch, progress)
        (target / archive_name(architecture)).write_bytes(content)
        sums[architecture] = hashlib.sha256(content).hexdigest()
    downloads = os.environ.get("LANLOOM_DOWNLOADS", DOWNLOADS)
    (target / "krew-lanloom.yaml").write_text(manifest(sums, downloads))
