"""An image as an archive in the layout of OCI, which containerd, Podman, skopeo and Docker load.

It has Docker's manifest as well, which older versions of Docker ask for.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scripts.image.files import packed

Raw = dict[str, Any]

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
REGISTRY = "docker.io/library"
"""What containerd puts before a name without a registry; no other program reads it."""


class Layer(NamedTuple):
    """A layer as it is stored, and the digest of what is in it."""

    blob: bytes
    diff_id: str
    title: str

    @classmethod
    def of(cls, archive: bytes, title: str) -> "Layer":
        """Return the layer of an archive; `title` says in `docker history` what it has."""
        return cls(packed(archive), digest(archive), title)


class Image(NamedTuple):
    """What a container engine needs to know. `created` is in RFC 3339 format."""

    name: str
    tag: str
    architecture: str
    created: str
    run: Raw
    layers: Sequence[Layer]


def digest(content: bytes) -> str:
    """Return the name of a content, as OCI writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _config(image: Image) -> bytes:
    return _json(
        {
            "created": image.created,
            "architecture": image.architecture,
            "os": "linux",
            "config": image.run,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
            "history": [{"created": image.created, "created_by": layer.title} for layer in image.layers],
        }
    )


def _descriptor(kind: str, content: bytes, **more: Any) -> Raw:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)} | more


def manifest(image: Image) -> bytes:
    """Return the manifest, whose digest is that of the image."""
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, _config(image)),
            "layers": [_descriptor(LAYER, layer.blob) for layer in image.layers],
        }
    )


def archive(image: Image) -> bytes:
    """Return the image as one file."""
    blobs = [manifest(image), _config(image), *(layer.blob for layer in image.layers)]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _index(image, blobs[0]),
        "manifest.json": _docker_manifest(image, blobs[1]),
    }
    files |= {_blob_path(blob): blob for blob in blobs}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        _add_files(tar, files)
    return buffer.getvalue()


def _add_files(tar: tarfile.TarFile, files: Mapping[str, bytes]) -> None:
    for path, content in sorted(files.items()):
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(content), 0o644
        tar.addfile(entry, io.BytesIO(content))


def _index(image: Image, content: bytes) -> bytes:
    names = {
        "io.containerd.image.name": f"{REGISTRY}/{image.name}:{image.tag}",
        "org.opencontainers.image.ref.name": image.tag,
    }
    platform = {"architecture": image.architecture, "os": "linux"}
    entry = _descriptor(MANIFEST, content, platform=platform, annotations=names)
    return _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})


def _docker_manifest(image: Image, config: bytes) -> bytes:
    layers = [_blob_path(layer.blob) for layer in image.layers]
    entry = {"Config": _blob_path(config), "RepoTags": [f"{image.name}:{image.tag}"], "Layers": layers}
    return _json([entry])


def _blob_path(content: bytes) -> str:
    return f"blobs/{digest(content).replace(':', '/')}"


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
