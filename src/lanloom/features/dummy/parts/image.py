"""The image that the manager itself runs, by its digest: the bridges' pods are made of the same one."""

from lanloom.api.core import Pod
from lanloom.features.dummy.rules.daemonset import has_digest

CONTAINER = "manager"
"""The container in which the manager runs, where its pod has several."""


def image_of(pod: Pod) -> str:
    """The image with its digest, as the node's runtime reports it; empty where it does not say so.

    containerd says `docker.io/a/b@sha256:…`, Docker the same after `docker-pullable://`. A digest alone is that of an
    image that was put onto the node by hand: no other node could pull it by that.
    """
    statuses = pod.status.container_statuses
    chosen = [item for item in statuses if item.name == CONTAINER] or list(statuses)
    if len(chosen) != 1:
        return ""
    image = chosen[0].image_id.rpartition("://")[2]
    return image if has_digest(image) else ""
