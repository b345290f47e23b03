"""The CNI shim for an architecture: scripts/shim with this machine's compiler, or with Debian's cross compiler.

The cross compiler is unpacked in the cache, and not installed.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from lanloom_lab.assets import Progress, debian_package
from lanloom_lab.errors import AssetError

SCRIPT = Path(__file__).parents[1] / "shim"
PLACE = "opt/lanloom/venv/lib/python3.11/site-packages/lanloom/runtime/cni/cni-shim"

CROSS = (
    "gcc-12-aarch64-linux-gnu",
    "cpp-12-aarch64-linux-gnu",
    "binutils-aarch64-linux-gnu",
    "libc6-arm64-cross",
    "libc6-dev-arm64-cross",
    "libgcc-12-dev-arm64-cross",
    "linux-libc-dev-arm64-cross",
    "libbinutils",
    "libgmp10",
    "libisl23",
    "libjansson4",
    "libmpc3",
    "libmpfr6",
    "libzstd1",
)
TARGET = "aarch64-linux-gnu"


def shim(cache: Path, architecture: str, progress: Progress) -> bytes:
    """Return the program. The first call for another architecture than this machine's fetches a compiler.

    Raises AssetError where Debian's cross compiler does not run.
    """
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "cni-shim"
        environment = dict(os.environ)
        native = _native()
        if native not in (architecture, "amd64"):
            why = f"the CNI shim can't be compiled for {architecture} on {native}"
            raise AssetError(why, f"Build that image on amd64 or {architecture}.")
        if architecture != native:
            environment |= _cross_compiler(Path(directory), debian_package(cache, CROSS, progress))
        subprocess.run([SCRIPT, target], env=environment, check=True)
        return target.read_bytes()


def _native() -> str:
    return subprocess.run(
        ["dpkg", "--print-architecture"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def _cross_compiler(directory: Path, tree: Path) -> dict[str, str]:
    """Put the compiler before others as `cc`, and return its environment."""
    programs, system = directory / "bin", tree / "usr" / TARGET
    programs.mkdir()
    places = f"-B{system}/bin -B{system}/lib -isystem {system}/include -L{system}/lib --sysroot={tree}"
    cc = programs / "cc"
    cc.write_text(f'#!/bin/sh\nexec {tree}/usr/bin/{TARGET}-gcc-12 {places} "$@"\n')
    cc.chmod(0o755)
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    return {"PATH": f"{programs}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(libraries)}
