"""Write what in deploy/ follows from the code (`make manifests`).

First the generated part of the chart: the CRDs, the rights, the schema of the values. Then what follows from the chart:
deploy/*.yaml with its defaults, the base for Kustomize, and in overlays/ one for each distribution of Kubernetes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lanloom import __version__
from lanloom.api import crds
from lanloom.command import cli
from lanloom.entry import COLUMNS
from lanloom.processes.chart import source
from lanloom.processes.chart.values import schema
from lanloom.processes.definitions import foreign, own
from lanloom.processes.rbac import agent_roles, manager_roles, tenant_roles
from lanloom.runtime.webhookconfig import installed_configurations
from scripts import addon, argocd, dashboards, kustomize

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


CHART = "chart/lanloom"
_CHART = {
    "apiVersion": "v2",
    "name": "lanloom",
    "description": "Real networks for the virtual machines of a Kubernetes cluster",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.20.0-0",
    # By which Rancher lists the chart among its apps.
    "annotations": {
        "catalog.cattle.io/display-name": "Lanloom",
        "catalog.cattle.io/release-name": "lanloom",
        "catalog.cattle.io/namespace": "kube-system",
        "catalog.cattle.io/os": "linux",
    },
}
_DEFINITIONS = (
    "# Written by `make manifests` from the kinds of the features; others.yaml has those of others.\n"
)
_OTHERS = """\
# Written by `make manifests` from the kinds of other projects: Harvester, Multus, k8slan. Helm 4 applies what is in
# a chart's crds/ over definitions that exist, and a rollback what is in a release. So each is a hook: it is created
# where the cluster lacks it, is no part of the release, and is never changed or deleted. Without a cluster to ask
# (`helm template`, Argo CD) there are none: run `lanloom crds --apply`.
{{- if .Values.crds.install }}
{{- if lookup "v1" "Namespace" "" "kube-system" }}
"""
_METADATA = "metadata:\n"
_KEEP = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""

_HOOK = """\
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
"""


def _text(*objects: dict[str, Any]) -> str:
    text: str = yaml.dump_all(objects, Dumper=_Plain, sort_keys=False)
    return text


def generated() -> dict[str, str]:
    """File name below deploy/ → its content, for what follows from the code itself."""
    rights = _RIGHTS + _text(*manager_roles(), *agent_roles(), *tenant_roles())
    files = {
        f"{CHART}/Chart.yaml": _text(_CHART),
        f"{CHART}/values.schema.json": json.dumps(schema(), indent=2) + "\n",
        f"{CHART}/templates/rbac.yaml": rights,
        f"{CHART}/templates/webhooks.yaml": _WEBHOOKS + _text(*installed_configurations()),
        f"{CHART}/templates/crds.yaml": _definitions(),
        f"{CHART}/templates/others.yaml": _others(),
        f"{CHART}/files/dashboards.yaml": dashboards.config_map(),
    }
    files["argocd/health.yaml"] = argocd.settings()
    files["harvester/addon.yaml"] = addon.manifest()
    files |= {f"dashboards/{name}": text for name, text in dashboards.files().items()}
    for folder, kinds in (("crds", own()), ("crds/others", foreign())):
        files |= {f"{folder}/{kind.full_name}.yaml": crds.to_yaml(crds.manifest(kind)) for kind in kinds}
    return files


def _definitions() -> str:
    """Return the template of Lanloom's own kinds, which helm upgrades, and deletes only with an option."""
    texts = [crds.to_yaml(crds.manifest(kind)) for kind in own()]
    kept = "".join(f"---\n{text.replace(_METADATA, _METADATA + _KEEP, 1)}" for text in texts)
    return f"{_DEFINITIONS}{{{{- if .Values.crds.install }}}}\n{kept}{{{{- end }}}}\n"


def _others() -> str:
    """Return the template of the kinds of other projects, for those that the cluster lacks."""
    texts = [(kind.full_name, crds.to_yaml(crds.manifest(kind))) for kind in foreign()]
    parts = [
        f'{{{{- if not (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "{name}") }}}}\n'
        f"---\n{text.replace(_METADATA, _METADATA + _HOOK, 1)}{{{{- end }}}}\n"
        for name, text in texts
    ]
    return f"{_OTHERS}{''.join(parts)}{{{{- end }}}}\n{{{{- end }}}}\n"


def rendered() -> dict[str, str]:
    """File name below deploy/ → its content, for what follows from the chart as it is on the disk."""
    on = {"enabled": True}
    texts = source.rendered({"hostUnit": on, "console": on, "monitoring": on})
    files = {f"{name}.yaml": text for name, text in texts.items() if name != "crds"}
    files["kustomization.yaml"] = kustomize.base()
    return files | {f"../overlays/{name}": text for name, text in kustomize.overlays().items()}


def help_text() -> str:
    """Return the help of all commands, which the entry point prints without importing anything."""
    context = cli.make_context("lanloom", [], resilient_parsing=True, terminal_width=COLUMNS - 2)
    return f"{cli.get_help(context)}\n"


def manifests() -> Iterator[tuple[str, str]]:
    """Yield file names below deploy/ and their content; the later ones follow from the earlier ones on the disk."""
    yield from generated().items()
    yield from rendered().items()
    yield "../src/lanloom/help.txt", help_text()


if __name__ == "__main__":
    for name, text in manifests():
        (DEPLOY / name).parent.mkdir(parents=True, exist_ok=True)
        (DEPLOY / name).write_text(text)
