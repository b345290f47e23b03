"""`make image`: build the image for one architecture or for all, and say how to bring it onto nodes."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from lanloom import __version__
from lanloom_lab.assets import default_cache
from lanloom_lab.errors import LabError
from scripts.image.build import ARCHITECTURES, ROOT, build


def write(target: Path, architecture: str, epoch: int) -> Path:
    """Build an image and write its archive and its bill of materials; return the archive."""
    built = build(default_cache(), architecture, epoch, _progress)
    archive = target / f"lanloom-{__version__}-image-{architecture}.tar"
    archive.write_bytes(built.archive)
    archive.with_suffix(".cdx.json").write_text(built.bill)
    print(f"{archive}\n  lanloom:{__version__}@{built.digest}")
    print(f"  {len(built.archive) / 1e6:.0f} MB, {built.unpacked / 1e6:.0f} MB unpacked")
    return archive


def epoch_of(root: Path) -> int:
    """Return the time that archives have: SOURCE_DATE_EPOCH, or that of the last commit."""
    words = ["git", "log", "-1", "--format=%ct"]
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or subprocess.run(words, cwd=root, check=True, stdout=subprocess.PIPE).stdout)


def _progress(line: str) -> None:
    print(f"image: {line}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("--architecture", choices=(*ARCHITECTURES, "all"), default="amd64")
    parser.add_argument("target", nargs="?", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    chosen = ARCHITECTURES if options.architecture == "all" else (options.architecture,)
    try:
        for architecture in chosen:
            write(options.target, architecture, epoch_of(ROOT))
    except LabError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print("Load it onto a node: ctr -n k8s.io images import FILE, or podman load -i FILE.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
