"""Bills of materials as CycloneDX: of a release, whose packages come from PyPI, and of an image, with Debian's too."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from lanloom import __version__
from scripts.image.debian import Package
from scripts.image.wheels import LEFT_OUT

Raw = dict[str, Any]

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill_of_materials(requirements: str) -> str:
    """Return the packages that run with Lanloom, with versions, licences and hashes, as CycloneDX 1.5.

    The serial number follows from the content.
    """
    components = list(_components(requirements))
    own = {"type": "application", "name": "lanloom", "version": __version__, "licenses": _licences("lanloom")}
    bill: Raw = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, requirements + __version__)}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }
    return json.dumps(bill, indent=2) + "\n"


def _components(requirements: str) -> Iterator[Raw]:
    found = list(_PINNED.finditer(requirements))
    ends = [*(item.start() for item in found[1:]), len(requirements)]
    for item, end in zip(found, ends, strict=True):
        name, version = item[1], item[2]
        hashes = _HASH.findall(requirements, item.end(), end)
        yield {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower()}@{version}",
            "licenses": _licences(name),
            "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
        }


def _licences(package: str) -> list[Raw]:
    """Return the licence as the package names it: an SPDX expression, or any text."""
    try:
        known = metadata(package).json
    except PackageNotFoundError:
        return []
    if expression := known.get("license_expression"):
        return [{"expression": expression}]
    named = [
        text.rpartition(" :: ")[2] for text in known.get("classifier", ()) if text.startswith("License ::")
    ]
    text = named[0] if named else str(known.get("license", "")).partition("\n")[0]
    return [{"license": {"name": text}}] if text else []


def image_bill(requirements: str, found: Iterable[Package], digest: str) -> str:
    """Return the bill of materials of the image with this digest."""
    bill: Raw = json.loads(bill_of_materials(requirements))
    component = bill["metadata"]["component"]
    component |= {"type": "container", "hashes": [_hash(digest.removeprefix("sha256:"))]}
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    chosen = [item for item in bill["components"] if item["name"] not in LEFT_OUT]
    bill["components"] = chosen + [_debian_component(package) for package in found]
    return json.dumps(bill, indent=2) + "\n"


def _debian_component(package: Package) -> Raw:
    where = f"arch={package.architecture}&distro=debian-12"
    return {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": f"pkg:deb/debian/{package.name}@{package.version.replace(':', '%3A')}?{where}",
        "hashes": [_hash(package.sha256)],
    }


def _hash(content: str) -> Raw:
    return {"alg": "SHA-256", "content": content}
