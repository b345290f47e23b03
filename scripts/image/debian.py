"""The lowest layer: CPython, the libraries that it and the wheels load, and a static busybox.

These are unpacked packages of Debian, and no installed system: there is no package manager, and nothing that a
maintainer script would make. `/var/lib/dpkg/status.d` names them for scanners of vulnerabilities, as other such images
do.
"""

import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lanloom_lab.assets import RELEASE, Progress, apt_client, debian_package, publish
from scripts.image.files import USR_MERGED, File, Files, from_tar

PACKAGES = (
    "base-files",
    "busybox-static",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)

APPLETS = (
    "cat",
    "chmod",
    "cp",
    "date",
    "df",
    "env",
    "find",
    "grep",
    "head",
    "hostname",
    "id",
    "ip",
    "kill",
    "less",
    "ls",
    "mkdir",
    "mount",
    "nsenter",
    "ping",
    "ps",
    "readlink",
    "rm",
    "sed",
    "sh",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tar",
    "test",
    "top",
    "tr",
    "umount",
    "uname",
    "vi",
    "wc",
)
"""What manifests run (`test`, `sleep`, `nsenter`, `sh`), and what helps to look into a container."""

_LEFT_OUT = re.compile(
    r"usr/share/(?!doc/[^/]+/copyright$|python3)"
    r"|usr/lib/[^/]+/(gconv|audit|perl|pkgconfig)/"
    r"|usr/lib/python3\.11/(pydoc_data|lib2to3|turtledemo|idlelib|test|unittest|ensurepip|__pycache__)/"
    r"|usr/lib/python3\.11/lib-dynload/(_curses|_dbm|_gdbm|nis|readline|_tkinter|_ctypes_test|_xxtest|_testc)"
    r"|usr/lib/[^/]+/(engines-3/|ossl-modules/|libmvec\.|libexpatw\.)"
    r"|usr/lib/binfmt\.d/|usr/lib/valgrind/|usr/libexec/|usr/lib/bfd-plugins/"
    r"|usr/(games|include|sbin|src)/|usr/bin/(?!python3\.11$|busybox$)"
    r"|var/|boot/|home/|media/|mnt/|opt/|srv/|etc/(?!os-release$|debian_version$)"
)

PASSWD = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


class Package(NamedTuple):
    """A package of Debian as it was fetched; `archive` is the .deb."""

    name: str
    version: str
    architecture: str
    sha256: str
    archive: Path


def packages(cache: Path, architecture: str, progress: Progress) -> list[Package]:
    """Return the packages of the layer; the first call ever fetches them."""
    names = [f"{name}:{architecture}" for name in PACKAGES]
    key = hashlib.sha256(" ".join((RELEASE, *names)).encode()).hexdigest()[:12]

    def fetch(partial: Path) -> None:
        progress(f"fetching {len(names)} Debian packages ({architecture})")
        with apt_client(cache, progress, architecture=architecture) as apt:
            apt.download(names, partial)

    directory = publish(cache / f"image-debian-{architecture}-{key}", fetch, progress)
    return [_package(path) for path in sorted(directory.glob("*.deb"))]


def _package(archive: Path) -> Package:
    fields = _output("dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", archive)
    name, version, architecture = fields.decode().split()
    return Package(name, version, architecture, hashlib.sha256(archive.read_bytes()).hexdigest(), archive)


def base(found: Sequence[Package], cache: Path, progress: Progress) -> Files:
    """Return the files of the layer."""
    files: Files = {name: File(target=f"usr/{name}") for name in USR_MERGED}
    for package in found:
        files |= _unpacked(package)
        about = _output("dpkg-deb", "--field", package.archive)
        files[f"var/lib/dpkg/status.d/{package.name}"] = File(about)
    files |= {f"usr/bin/{applet}": File(target="busybox") for applet in APPLETS}
    files["usr/bin/python3"] = File(target="python3.11")
    # Containerd names the network namespaces of pods by this path, which no package contains.
    files["var/run"] = File(target="/run")
    files |= {"etc/passwd": File(PASSWD.encode()), "etc/group": File(GROUP.encode())}
    files["usr/lib/ssl/cert.pem"] = File(target=f"/{CERTIFICATES}")  # where OpenSSL looks
    files[CERTIFICATES] = File(_certificates(debian_package(cache, ["ca-certificates"], progress)))
    return files


def _unpacked(package: Package) -> Iterator[tuple[str, File]]:
    archive = _output("dpkg-deb", "--fsys-tarfile", package.archive)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for path, file in from_tar(tar):
            if not _LEFT_OUT.match(path):
                yield path, file


def _certificates(package: Path) -> bytes:
    """Return Mozilla's authorities in one file, as `update-ca-certificates` makes it."""
    return b"".join(
        path.read_bytes() for path in sorted(package.glob("usr/share/ca-certificates/mozilla/*.crt"))
    )


def _output(*words: str | Path) -> bytes:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
