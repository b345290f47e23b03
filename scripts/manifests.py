"""Writes the manifests in deploy/ that follow from the code: the CRDs and the rights (`make manifests`)."""

from pathlib import Path

import yaml

from lanloom.api import crds
from lanloom.app.rbac import agent_role, manager_roles

DEPLOY = Path(__file__).parents[1] / "deploy"


class _Plain(yaml.SafeDumper):
    """Without anchors: a manifest is read by people."""

    def ignore_aliases(self, data: object) -> bool:
        """Repeats what is repeated."""
        return True


def manifests() -> dict[str, str]:
    """File name below deploy/ → its content."""
    rights = yaml.dump_all([*manager_roles(), *agent_role()], Dumper=_Plain, sort_keys=False)
    files = {
        "rbac.yaml": f"# Written by `make manifests` from lanloom.app.rbac: change the rules there.\n{rights}"
    }
    return files | {f"crds/{crd['metadata']['name']}.yaml": crds.to_yaml(crd) for crd in crds.manifests()}


if __name__ == "__main__":
    for name, text in manifests().items():
        (DEPLOY / name).write_text(text)
