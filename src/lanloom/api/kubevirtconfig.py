"""KubeVirt's own object (kubevirt.io/v1, KubeVirt): its version, its feature gates, and what it does by itself.

Where there is one, KubeVirt's controllers run; CustomResourceDefinitions alone outlive them.
"""

import re
from typing import NamedTuple

from msgspec import Struct, field

from lanloom.api.meta import Object
from lanloom.api.resource import Resource

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(\D|\Z)", re.ASCII)

LIVE_MIGRATE = "LiveMigrate"
"""The method of `workload_update_methods` by which KubeVirt migrates machines that changed."""

EVICT = "Evict"
"""The method of `workload_update_methods` by which KubeVirt shuts machines down that it does not migrate."""


class DeveloperConfiguration(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Feature gates that are switched on, and off; a gate in both lists is on."""

    feature_gates: tuple[str, ...] = ()
    disabled_feature_gates: tuple[str, ...] = ()


class KubeVirtConfiguration(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """KubeVirt's configuration, as far as live update goes."""

    developer_configuration: DeveloperConfiguration = DeveloperConfiguration()


class WorkloadUpdateStrategy(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What KubeVirt does with running machines that changed; without methods, nothing."""

    workload_update_methods: tuple[str, ...] = ()


class KubeVirtSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What KubeVirt is to be."""

    configuration: KubeVirtConfiguration = KubeVirtConfiguration()
    workload_update_strategy: WorkloadUpdateStrategy = WorkloadUpdateStrategy()


class KubeVirtStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What runs: `observed_version` is such as `v1.8.2`, empty until KubeVirt is deployed.

    While it is updated, `observed_deployment` is not `target_deployment`.
    """

    phase: str = ""
    observed_version: str = field(name="observedKubeVirtVersion", default="")
    observed_deployment: str = field(name="observedDeploymentID", default="")
    target_deployment: str = field(name="targetDeploymentID", default="")

    @property
    def is_settled(self) -> bool:
        """Whether KubeVirt is deployed and not being updated: else it migrates and evicts no machine by itself."""
        return self.phase in ("", "Deployed") and self.observed_deployment == self.target_deployment


class KubeVirt(Object, frozen=True, kw_only=True):
    """An installation of KubeVirt; a cluster has one at the most."""

    spec: KubeVirtSpec = KubeVirtSpec()
    status: KubeVirtStatus = KubeVirtStatus()


class KubeVirtVersion(NamedTuple):
    """A release of KubeVirt."""

    major: int
    minor: int


def parse_version(text: str) -> KubeVirtVersion | None:
    """Return the release that a version belongs to, such as `v1.8.2` or `1.5.2-150700.3`; None for other texts."""
    found = _VERSION.match(text)
    return KubeVirtVersion(int(found[1]), int(found[2])) if found is not None else None


KUBEVIRTS = Resource(
    group="kubevirt.io",
    version="v1",
    kind="KubeVirt",
    plural="kubevirts",
    type=KubeVirt,
    namespaced=True,
    short_names=("kv",),
    status=True,
)
