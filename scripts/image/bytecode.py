"""Modules compiled beforehand: the image is read only where it runs, so each start would compile all of them again.

The bytecode is never compared with its source (PEP 552, `unchecked-hash`): no time of a file takes part in it. CPython
3.11 makes the same bytecode for each architecture, and the same again in a process that has done nothing else before.
"""

import posixpath
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.image.files import File, Files

VERSION = (3, 11)
"""That of the image's interpreter."""

_RARE = ("pygments/", "pycparser/", "cffi/", "anyio/_backends/_trio")
"""Beginnings of modules that no process of Lanloom loads; their bytecode would only take space."""


def compiled(files: Files) -> Files:
    """Return the bytecode of all Python modules of the files."""
    if sys.version_info[:2] != VERSION:
        raise RuntimeError(
            f"the image has CPython 3.11, and this is {sys.version.split()[0]}: run `make setup`"
        )
    sources = {path: file.content for path, file in files.items() if _is_wanted(path)}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for path, content in sources.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        _compile(root)
        made = sorted(root.rglob("*.pyc"))
        return {str(path.relative_to(root)): File(path.read_bytes()) for path in made}


def _is_wanted(path: str) -> bool:
    return posixpath.splitext(path)[1] == ".py" and not any(f"/{part}" in path for part in _RARE)


def _compile(root: Path) -> None:
    words = ["-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    # The paths in tracebacks are those in the image. The order of a frozenset follows from the seed.
    places = ["-s", str(root), "-p", "/", str(root)]
    subprocess.run([sys.executable, "-S", *words, *places], check=True, env={"PYTHONHASHSEED": "0"})
