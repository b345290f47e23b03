"""What a real node runs on: `python -m tests.harness.nodes.programs` makes it.

It is kubelet, containerd, runc, CNI's reference plugins, and an image, without any registry. CNI's own `cnitool`, which
no node runs, is made along with them.

All of it is unpacked or built in the cache, and nothing is installed: containerd's package would start a service.
"""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from lanloom_lab.assets import Progress, debian_package, default_cache
from lanloom_lab.errors import LabError
from tests.harness.nodes.cnitool import cnitool
from tests.harness.servers.build import kubelet

PAUSE_IMAGE = "localhost/pause:1"
BUSYBOX_IMAGE = "localhost/busybox:1"

FOREVER = 'trap "exit 0" TERM; while :; do sleep 3600 & wait; done'
"""For `sh -c`: idle until SIGTERM, as a container's first process gets no signal that it does not ask for."""


class NodePrograms(NamedTuple):
    """Files that a node runs; directories are those of unpacked Debian packages."""

    kubelet: Path
    containerd: Path
    runc: Path
    cni: Path
    busybox: Path

    @property
    def path(self) -> str:
        """The directories with programs, before those of the machine, as in $PATH."""
        return f"{self.containerd / 'usr/bin'}:{self.runc / 'usr/sbin'}:/usr/sbin:/usr/bin:/sbin:/bin"

    @property
    def plugins(self) -> Path:
        """The directory with CNI's reference plugins."""
        return self.cni / "usr/lib/cni"


def node_programs(cache: Path, progress: Progress) -> NodePrograms:
    """Return the programs of a node; the first call ever fetches the packages and builds kubelet."""
    packages = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
    containerd, runc, cni, busybox = (debian_package(cache, [name], progress) for name in packages)
    return NodePrograms(kubelet(cache, progress), containerd, runc, cni, busybox / "bin/busybox")


def write_images(busybox: Path, target: Path) -> None:
    """Write an archive of images for `ctr images import`: one layer with busybox, under two names."""
    layer = _layer(busybox)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh", "-c", FOREVER]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE, BUSYBOX_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, "layer.tar", layer)
        _add(archive, "config.json", config)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for directory in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in ("sh", "sleep", "ip", "ping", "cat", "ls", "nc"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def main() -> int:
    """Build and fetch the programs, or find them; print their places."""

    def progress(line: str) -> None:
        print(f"nodes: {line}", file=sys.stderr, flush=True)

    try:
        programs = node_programs(default_cache(), progress)
        tool = cnitool(default_cache(), progress)
    except LabError as error:
        print(f"nodes: {error}", file=sys.stderr)
        return 1
    for place in (*programs, tool):
        print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
