"""`make image`: build the image for one architecture or for all, and say how to bring it onto nodes."""

import argparse
import sys
from pathlib import Path

from lanloom import __version__
from lanloom_lab.assets import default_cache
from lanloom_lab.errors import LabError
from scripts.image.build import ARCHITECTURES, ROOT, build, source_epoch


def write(target: Path, architecture: str, epoch: int) -> None:
    """Build an image, write its archive and its bill of materials, and say what it is."""
    built = build(default_cache(), architecture, epoch, progress)
    archive = target / f"lanloom-{__version__}-image-{architecture}.tar"
    archive.write_bytes(built.archive)
    archive.with_suffix(".cdx.json").write_text(built.bill)
    sizes = f"{len(built.archive) / 1e6:.0f} MB, {built.unpacked / 1e6:.0f} MB unpacked"
    print(f"{archive}: lanloom:{__version__}@{built.digest}, {sizes}")


def write_all(target: Path, epoch: int) -> None:
    """Write the images of all architectures."""
    for architecture in ARCHITECTURES:
        write(target, architecture, epoch)


def progress(line: str) -> None:
    """Print a step."""
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
            write(options.target, architecture, source_epoch())
    except LabError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print("Load it onto a node: ctr -n k8s.io images import FILE, or podman load -i FILE.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
