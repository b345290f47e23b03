"""What an image consists of, as CycloneDX: the packages of the release's own bill, and those of Debian."""

import json
import uuid
from collections.abc import Iterable
from typing import Any

from scripts.image.debian import Package
from scripts.image.wheels import LEFT_OUT
from scripts.release import bill_of_materials

Raw = dict[str, Any]


def image_bill(requirements: str, found: Iterable[Package], digest: str) -> str:
    """Return the bill of materials of the image with this digest."""
    bill: Raw = json.loads(bill_of_materials(requirements))
    component = bill["metadata"]["component"]
    component |= {"type": "container", "hashes": [_hash(digest.removeprefix("sha256:"))]}
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    chosen = [item for item in bill["components"] if item["name"] not in LEFT_OUT]
    bill["components"] = chosen + [_component(package) for package in found]
    return json.dumps(bill, indent=2) + "\n"


def _component(package: Package) -> Raw:
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
