"""The image that a pod runs, as its node's runtime reports it."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import PODS
from lanloom.features.dummy.parts.image import image_of

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
NAMED = f"docker.io/example/lanloom@{DIGEST}"


def reported(*containers: dict[str, Any]) -> str:
    """The image of a pod of whose containers that is reported."""
    return image_of(msgspec.convert({"status": {"containerStatuses": list(containers)}}, PODS.type))


@pytest.mark.parametrize(
    ("image_id", "image"),
    [
        (NAMED, NAMED),
        (f"docker-pullable://{NAMED}", NAMED),
        (f"localhost:5000/lanloom@{DIGEST}", f"localhost:5000/lanloom@{DIGEST}"),
        (DIGEST, ""),
        (f"docker://{DIGEST}", ""),
        ("docker.io/example/lanloom:0.1.0", ""),
        ("", ""),
    ],
)
def test_forms_of_runtimes(image_id: str, image: str) -> None:
    """A name with a digest is taken, in the forms of containerd and Docker; a digest alone can't be pulled."""
    assert reported({"name": "manager", "imageID": image_id}) == image


def test_the_manager_s_container_counts() -> None:
    """Beside others, the container `manager` counts; without it, only one that is alone."""
    other = {"name": "other", "imageID": f"other@{DIGEST}"}
    assert reported(other, {"name": "manager", "imageID": NAMED}) == NAMED
    assert reported(other) == f"other@{DIGEST}"
    assert reported(other, {"name": "third", "imageID": NAMED}) == ""
    assert reported() == ""
