"""The image by its rules: layers that depend on nothing but files, and an archive that each engine understands."""

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.image import oci
from scripts.image.bill import image_bill
from scripts.image.debian import Package
from scripts.image.files import File, Files, canonical, from_tar, layer
from scripts.image.wheels import LEFT_OUT, SITE, unpacked

FILES: Files = {
    "usr/bin/program": File(b"#!/bin/sh\n", 0o755),
    "usr/bin/other": File(target="program"),
    "etc/passwd": File(b"root\n"),
}


def opened(content: bytes) -> tarfile.TarFile:
    """Return a layer or an archive as it is read."""
    return tarfile.open(fileobj=io.BytesIO(content))


def test_a_layer_has_neither_owners_nor_times() -> None:
    """Everything is root's, of the epoch, in the order of names, and below its directories."""
    members = opened(layer(FILES, {"tmp": 0o1777})).getmembers()
    names = ["etc", "etc/passwd", "tmp", "usr", "usr/bin", "usr/bin/other", "usr/bin/program"]
    assert [member.name for member in members] == names
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 0)}
    modes = {member.name: member.mode for member in members}
    assert (modes["usr/bin/program"], modes["etc/passwd"], modes["tmp"]) == (0o755, 0o644, 0o1777)


def test_a_layer_follows_from_its_files() -> None:
    """The order in which files are found changes nothing."""
    assert layer(FILES) == layer(dict(reversed(FILES.items())))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./usr/bin/x", "usr/bin/x"),
        ("/etc/x", "etc/x"),
        ("./bin/busybox", "usr/bin/busybox"),
        ("lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./library", "library"),
    ],
)
def test_paths_are_those_of_a_merged_usr(path: str, expected: str) -> None:
    """Packages may name files by the paths before /bin was a link into /usr."""
    assert canonical(path) == expected


def test_no_file_is_outside_of_the_image() -> None:
    """A path that climbs out is an error."""
    with pytest.raises(ValueError, match="outside"):
        canonical("../etc/passwd")


def test_set_id_bits_and_owners_of_packages_are_dropped() -> None:
    """A program of a package runs as who starts it; a hard link is a file of its own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("./usr/bin/mount")
        entry.mode, entry.size, entry.uid = 0o4755, 1, 7
        tar.addfile(entry, io.BytesIO(b"x"))
        link = tarfile.TarInfo("./usr/bin/again")
        link.type, link.linkname = tarfile.LNKTYPE, "./usr/bin/mount"
        link.mode = 0o755
        tar.addfile(link)
    assert dict(from_tar(opened(buffer.getvalue()))) == {
        "usr/bin/mount": File(b"x", 0o755),
        "usr/bin/again": File(b"x", 0o755),
    }


def image() -> oci.Image:
    """Return an image of two small layers."""
    parts = [oci.Layer.of(layer(FILES), "base"), oci.Layer.of(layer({"x": File(b"x")}), "own")]
    return oci.Image("lanloom", "9.9.9", "arm64", "2026-01-01T00:00:00Z", {"User": "65534:65534"}, parts)


def test_the_archive_has_all_that_it_names() -> None:
    """Each descriptor's digest and size are those of a blob; the layers' digests are of what is in them."""
    with opened(oci.archive(image())) as tar:
        blobs = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    entry = json.loads(blobs["index.json"])["manifests"][0]
    assert entry["digest"] == oci.digest(oci.manifest(image()))
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/lanloom:9.9.9"
    manifest = json.loads(blobs[f"blobs/sha256/{entry['digest'][7:]}"])
    for found in (entry, manifest["config"], *manifest["layers"]):
        blob = blobs[f"blobs/sha256/{found['digest'][7:]}"]
        assert (len(blob), hashlib.sha256(blob).hexdigest()) == (found["size"], found["digest"][7:])
    config = json.loads(blobs[f"blobs/sha256/{manifest['config']['digest'][7:]}"])
    assert (config["architecture"], config["config"]["User"]) == ("arm64", "65534:65534")
    assert config["rootfs"]["diff_ids"][0] == oci.digest(layer(FILES))


def test_older_versions_of_docker_find_the_same_blobs() -> None:
    """Docker's own manifest names the configuration and the layers by the paths of OCI's layout."""
    with opened(oci.archive(image())) as tar:
        names = set(tar.getnames())
        found = json.loads(tar.extractfile("manifest.json").read())  # type: ignore[union-attr]
    assert found[0]["RepoTags"] == ["lanloom:9.9.9"]
    assert {found[0]["Config"], *found[0]["Layers"]} < names


def test_a_wheel_is_unpacked_as_pip_would(tmp_path: Path) -> None:
    """Modules of both kinds are there; programs, tests, sources in C and checksums are not."""
    wheel = tmp_path / "some-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (
            "some/__init__.py",
            "some/fast.so",
            "some/fast.c",
            "some/tests/test_it.py",
            "some-1.data/purelib/more.py",
            "some-1.data/scripts/program",
            "some-1.dist-info/METADATA",
            "some-1.dist-info/RECORD",
        ):
            archive.writestr(name, name)
    expected = {"some/__init__.py", "some/fast.so", "more.py", "some-1.dist-info/METADATA"}
    assert unpacked(wheel).keys() == {f"{SITE}/{name}" for name in expected}


def test_the_bill_names_packages_of_both_kinds() -> None:
    """Debian's packages have a purl with version and architecture; wheels that are left out are not listed."""
    requirements = (
        f"msgspec==0.22.0 \\\n    --hash=sha256:{'a' * 64}\nuvloop==1 \\\n    --hash=sha256:{'b' * 64}\n"
    )
    package = Package("libc6", "1:2.36-9", "arm64", "c" * 64, Path("libc6.deb"))
    bill = json.loads(image_bill(requirements, [package], f"sha256:{'d' * 64}"))
    assert bill["metadata"]["component"]["type"] == "container"
    purls = [item["purl"] for item in bill["components"]]
    assert purls == ["pkg:pypi/msgspec@0.22.0", "pkg:deb/debian/libc6@1%3A2.36-9?arch=arm64&distro=debian-12"]
    assert "uvloop" in LEFT_OUT
