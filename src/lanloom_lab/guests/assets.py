"""What a guest runs on: `python -m lanloom_lab.guests.assets`.

One directory in the cache holds QEMU with its libraries and firmware, Debian's kernel for clouds, and an initramfs of
busybox, the modules of virtio's network device and our own first program. It is made of Debian packages, which are
unpacked and not installed, and works at any path: QEMU is started by the loader that is next to it, so the machine's
own libraries do not matter.
"""

import gzip
import hashlib
import io
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from lanloom_lab.assets import (
    RELEASE,
    Apt,
    Progress,
    apt_client,
    debian_package,
    default_cache,
    private_tree,
    publish,
    run,
)
from lanloom_lab.errors import AssetError, LabError

KERNEL = "linux-image-cloud-amd64"
"""Depends on the package of the newest kernel, which has the version in its name."""

QEMU = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")

LIBRARIES = (
    "libaio1",
    "libcapstone4",
    "libdaxctl1",
    "libfdt1",
    "libfuse3-3",
    "libibverbs1",
    "libjpeg62-turbo",
    "libndctl6",
    "libnl-3-200",
    "libnl-route-3-200",
    "libnuma1",
    "libpixman-1-0",
    "libpmem1",
    "libpng16-16",
    "librdmacm1",
    "libslirp0",
    "liburing2",
    "libvdeplug2",
)
"""The libraries of QEMU that the lab's tree lacks. Its desktop modules, whose libraries are 200 MB, are left out."""

MODULES = ("virtio_pci", "virtio_net", "macvlan")
"""What a guest loads, with all that they depend on."""

FIRMWARE = (
    "seabios/bios-256k.bin",
    "qemu/kvmvapic.bin",
    "qemu/linuxboot.bin",
    "qemu/linuxboot_dma.bin",
    "qemu/pvh.bin",
)

INIT = Path(__file__).parent / "init.sh"
LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
FORMAT = 1
"""Part of the name in the cache; raise it when a change of this module makes other files."""

REMEDY = "Check the network, and for 500 MB free in the cache, then try again."


class GuestAssets(Struct, frozen=True):
    """The files that a guest runs on, all in `directory`."""

    directory: Path

    @property
    def kernel(self) -> Path:
        """The kernel's image."""
        return self.directory / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        """The initramfs, with the first program."""
        return self.directory / "initramfs.gz"

    @property
    def environment(self) -> Mapping[str, str]:
        """What QEMU needs in its environment."""
        return {"QEMU_MODULE_DIR": str(self.directory / "modules")}

    @property
    def qemu(self) -> tuple[str, ...]:
        """The words that start QEMU, before its options."""
        libraries = self.directory / "lib"
        program = self.directory / "qemu-system-x86_64"
        words = (libraries / LOADER, "--library-path", libraries, program, "-L", self.directory / "firmware")
        return tuple(map(str, words))


def guest_assets(cache: Path, progress: Progress) -> GuestAssets:
    """Return what a guest runs on; made once, in about a minute."""
    facts = (FORMAT, RELEASE, KERNEL, QEMU, LIBRARIES, MODULES, FIRMWARE, INIT.read_text())
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
    directory = publish(
        cache / f"guest-{RELEASE}-{digest}", lambda partial: _make(cache, partial, progress), progress
    )
    return GuestAssets(directory)


def _make(cache: Path, partial: Path, progress: Progress) -> None:
    tree = private_tree(cache, progress)
    busybox = debian_package(cache, ["busybox-static"], progress) / "bin/busybox"
    with tempfile.TemporaryDirectory(dir=partial) as directory:
        unpacked = Path(directory)
        with apt_client(cache, progress) as apt:
            progress("fetching QEMU (Debian packages, 25 MB)")
            _unpack(apt, (*QEMU, *LIBRARIES), unpacked / "qemu")
            progress("fetching Debian's kernel for clouds (25 MB)")
            _unpack(apt, (_kernel_package(apt, unpacked),), unpacked / "kernel")
        progress("putting QEMU and the initramfs together")
        _copy_qemu(unpacked / "qemu", tree, partial)
        (image,) = (unpacked / "kernel/boot").glob("vmlinuz-*")
        shutil.copyfile(image, partial / "vmlinuz")
        (partial / "initramfs.gz").write_bytes(initramfs(busybox, unpacked / "kernel"))


def _unpack(apt: Apt, names: tuple[str, ...], target: Path) -> None:
    archives = target.with_suffix(".archives")
    archives.mkdir()
    for archive in apt.download(names, archives):
        run(["dpkg", "-x", archive, target], REMEDY)


def _kernel_package(apt: Apt, scratch: Path) -> str:
    (archive,) = apt.download([KERNEL], scratch)
    needed = run(["dpkg-deb", "-f", archive, "Depends"], REMEDY)
    found = re.match(r"linux-image-[a-z0-9.+-]+", needed)
    if found is None:
        raise AssetError(f"{KERNEL} depends on no kernel: {needed.strip()}", REMEDY)
    return found[0]


def _copy_qemu(unpacked: Path, tree: Path, target: Path) -> None:
    program = unpacked / "usr/bin/qemu-system-x86_64"
    module = unpacked / LIBRARY_FOLDER / "qemu/accel-tcg-x86_64.so"
    shutil.copy2(program, target)
    for name in ("lib", "modules", "firmware"):
        (target / name).mkdir()
    shutil.copy2(module, target / "modules")
    for name in FIRMWARE:
        shutil.copyfile(unpacked / "usr/share" / name, target / "firmware" / Path(name).name)
    folders = [
        base / folder for base in (unpacked, tree) for folder in (LIBRARY_FOLDER, "lib/x86_64-linux-gnu")
    ]
    loader = tree / LIBRARY_FOLDER / LOADER
    shutil.copyfile(loader, target / "lib" / LOADER)
    (target / "lib" / LOADER).chmod(0o755)
    listed = run([loader, "--library-path", ":".join(map(str, folders)), "--list", program], REMEDY)
    for name, path in needed_libraries(listed).items():
        shutil.copyfile(path, target / "lib" / name)


def needed_libraries(listed: str) -> dict[str, Path]:
    """Return the libraries by their bare names, of what the loader's `--list` prints.

    The loader lists itself by an absolute path, which is left out: joined to a directory it would be the machine's own
    loader, and to write that ends every process on the machine.
    """
    found = {}
    for line in listed.splitlines():
        name, arrow, path = line.partition(" => ")
        if not arrow or "/" in name:
            continue
        if path.strip() == "not found":
            raise AssetError(
                f"QEMU needs {name.strip()}, which no package here has", f"Add its package to {__file__}."
            )
        found[name.strip()] = Path(path.rpartition(" (")[0])
    return found


def initramfs(busybox: Path, kernel: Path) -> bytes:
    """Return a compressed initramfs with busybox, our first program, and modules of the unpacked kernel package.

    The same input makes the same bytes.
    """
    modules = list(module_order(kernel, MODULES))
    archive = Archive()
    for folder in ("bin", "dev", "modules"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())
    archive.add("bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("init", stat.S_IFREG | 0o755, INIT.read_bytes())
    for module in modules:
        archive.add(f"modules/{module.name}", stat.S_IFREG | 0o644, module.read_bytes())
    archive.add("modules/order", stat.S_IFREG | 0o644, "\n".join(module.name for module in modules).encode())
    return gzip.compress(archive.finished(), 6, mtime=0)


def module_order(kernel: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of these modules and of those that they depend on, in the order in which they can be loaded."""
    files = {path.stem.replace("-", "_"): path for path in sorted(kernel.glob("lib/modules/**/*.ko"))}
    done: set[str] = set()

    def walk(name: str) -> Iterator[Path]:
        if name in done:
            return
        done.add(name)
        if name not in files:
            raise AssetError(f"Debian's kernel has no module {name}", f"Correct the names in {__file__}.")
        found = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        for needed in found[1].decode().split(",") if found and found[1] else ():
            yield from walk(needed.replace("-", "_"))
        yield files[name]

    for name in names:
        yield from walk(name)


class Archive:
    """A cpio archive of the format `newc`, as the kernel unpacks it; all files are root's, of the year 1970."""

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._count = 0

    def add(self, name: str, mode: int, content: bytes = b"", *, device: tuple[int, int] = (0, 0)) -> None:
        """Append a file with this type and mode; the content of a symbolic link is its target."""
        self._count += 1
        fields = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
        self._data.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0")
        self._pad()
        self._data.write(content)
        self._pad()

    def finished(self) -> bytes:
        """Return the archive with its end."""
        self.add("TRAILER!!!", 0)
        return self._data.getvalue()

    def _pad(self) -> None:
        self._data.write(bytes(-self._data.tell() % 4))


def main() -> int:
    """Make, or find, what guests run on; print its directory."""

    def progress(line: str) -> None:
        print(f"guests: {line}", file=sys.stderr, flush=True)

    try:
        assets = guest_assets(default_cache(), progress)
    except LabError as error:
        print(f"guests: {error}", file=sys.stderr)
        return 1
    print(assets.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
