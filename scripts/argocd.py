"""Build the health checks with which Argo CD reads the conditions of Lanloom's kinds, as settings of its ConfigMap."""

from collections.abc import Iterator
from pathlib import Path

from lanloom.features.vlan.rules.report.readiness import WAITING
from lanloom.processes.definitions import resources

_HEAD = """\
# Written by `make manifests` from scripts/health.lua. Merge it into Argo CD's settings:
#   kubectl -n argocd patch configmap argocd-cm --patch-file deploy/argocd/health.yaml
data:
"""


def script() -> str:
    """Return the check, the same for all kinds."""
    passing = ", ".join(f'["{reason}"] = true' for reason in sorted(WAITING))
    text = Path(__file__).with_name("health.lua").read_text()
    return text.replace("{PASSING}", f"{{{passing}}}")


def checked() -> Iterator[str]:
    """Return the kinds that say in conditions how they fare, as Argo CD names them."""
    for resource in resources():
        if any("conditions" in column.json_path for column in resource.columns):
            yield f"{resource.group}_{resource.kind}"


def settings() -> str:
    """Return the patch of Argo CD's ConfigMap."""
    lines = "".join(f"    {line}".rstrip() + "\n" for line in script().splitlines())
    return _HEAD + "".join(
        f"  resource.customizations.health.{kind}: |\n{lines}" for kind in sorted(checked())
    )
