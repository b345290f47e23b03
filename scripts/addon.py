"""Build the Addon by which Harvester installs the chart, from the chart itself.

Harvester's manager makes a HelmChart of it once it is enabled, and its interface switches it on and off. The values are
those of the chart that a Harvester cluster has to set.
"""

import yaml

from lanloom import __version__

_HEADER = """\
# Written by `make manifests`. Lanloom as an add-on of Harvester: set repo to where you keep the chart (`make release`
# makes it), image.repository to your registry, apply the file, and enable the add-on in Harvester or by
# spec.enabled. Its namespace is that of the release; Lanloom runs in lanloom-system.
"""
_REPOSITORY = "https://charts.example.com/lanloom"
_VALUES = {"image": {"repository": "registry.example.com/lanloom"}, "crds": {"keep": True}}


def manifest() -> str:
    """Return the manifest of the add-on, which is not enabled."""
    body = {
        "apiVersion": "harvesterhci.io/v1beta1",
        "kind": "Addon",
        "metadata": {
            "name": "lanloom",
            "namespace": "harvester-system",
            # Harvester's webhook lets users delete add-ons with this label alone.
            "labels": {"addon.harvesterhci.io/experimental": "true"},
        },
        "spec": {
            "repo": _REPOSITORY,
            "chart": "lanloom",
            "version": __version__,
            "enabled": False,
            "valuesContent": yaml.safe_dump(_VALUES, sort_keys=False),
        },
    }
    text: str = yaml.dump(body, Dumper=_Readable, sort_keys=False)
    return _HEADER + text


class _Readable(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)
