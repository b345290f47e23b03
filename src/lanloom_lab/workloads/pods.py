"""Pods as a kubelet reads them: the fields that say what is to run, and how it is to end."""

from typing import Any

from msgspec import Struct

from lanloom.api import core
from lanloom.api.resource import Resource


class Exec(Struct, frozen=True, kw_only=True):
    """A program whose exit status is the answer."""

    command: tuple[str, ...] = ()


class Probe(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to find out whether a container is ready; the lab knows programs only. Times in seconds."""

    exec: Exec | None = None
    period_seconds: int = 10
    failure_threshold: int = 3


class Mount(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a container sees a volume of its pod."""

    name: str
    mount_path: str


class Variable(Struct, frozen=True, kw_only=True):
    """A variable of a container's environment."""

    name: str
    value: str = ""


class Resources(Struct, frozen=True, kw_only=True):
    """What a container may use; the lab knows devices only, one of each resource."""

    limits: dict[str, Any] = {}


class Container(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to run. `command` replaces the image's own program, `args` are what follows."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    readiness_probe: Probe | None = None
    resources: Resources = Resources()


class Volume(Struct, frozen=True, kw_only=True, rename="camel"):
    """A volume; the lab knows empty directories only."""

    name: str
    empty_dir: dict[str, Any] | None = None


class PodSpec(core.PodSpec, frozen=True, kw_only=True, rename="camel"):
    """What a pod consists of. Containers are started again unless `restart_policy` is Never."""

    host_network: bool = False
    restart_policy: str = "Always"
    affinity: dict[str, Any] = {}
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Pod(core.Pod, frozen=True, kw_only=True):
    """A pod. Its `deletionTimestamp` is when it must have ended."""

    spec: PodSpec = PodSpec()

    @property
    def device_resources(self) -> tuple[str, ...]:
        """The resources of device plugins that its containers ask for, each once."""
        limits = (name for container in self.spec.containers for name in container.resources.limits)
        return tuple(sorted({name for name in limits if "/" in name}))


PODS = Resource(
    group=core.PODS.group,
    version=core.PODS.version,
    kind=core.PODS.kind,
    plural=core.PODS.plural,
    type=Pod,
    namespaced=True,
    short_names=core.PODS.short_names,
    status=True,
)
