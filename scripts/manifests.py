"""Writes the manifests in deploy/ that follow from the code: the CRDs and the rights (`make manifests`)."""

from pathlib import Path
from typing import Any

import yaml

from lanloom.api import crds
from lanloom.processes.definitions import foreign, own
from lanloom.processes.rbac import agent_roles, manager_roles, tenant_roles
from lanloom.runtime.webhookconfig import installed_configurations

DEPLOY = Path(__file__).parents[1] / "deploy"


class _Plain(yaml.SafeDumper):
    """Without anchors: a manifest is read by people."""

    def ignore_aliases(self, data: object) -> bool:
        """Repeats what is repeated."""
        return True


_RIGHTS = "# Written by `make manifests` from lanloom.processes.rbac: change the rules there.\n"
_WEBHOOKS = """\
# Written by `make manifests` from lanloom.runtime.webhookconfig. The leading manager fills the webhooks in, and may
# not create configurations. Until then nothing is checked. Applying this file again keeps what the manager wrote.
"""


def _text(*objects: dict[str, Any]) -> str:
    text: str = yaml.dump_all(objects, Dumper=_Plain, sort_keys=False)
    return text


def manifests() -> dict[str, str]:
    """File name below deploy/ → its content."""
    files = {
        "rbac.yaml": _RIGHTS + _text(*manager_roles(), *agent_roles(), *tenant_roles()),
        "webhooks.yaml": _WEBHOOKS + _text(*installed_configurations()),
    }
    for folder, kinds in (("crds", own()), ("crds/others", foreign())):
        files |= {f"{folder}/{kind.full_name}.yaml": crds.to_yaml(crds.manifest(kind)) for kind in kinds}
    return files


if __name__ == "__main__":
    for name, text in manifests().items():
        (DEPLOY / name).write_text(text)
