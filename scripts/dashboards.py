"""Build Grafana's dashboards from dashboards.yaml, for import and as a ConfigMap for the sidecar of Grafana's chart."""

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

Raw = dict[str, Any]
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CONFIG_MAP = """\
# Written by `make manifests` from scripts/dashboards.yaml.
apiVersion: v1
kind: ConfigMap
metadata:
  name: lanloom-dashboards
  namespace: lanloom-system
  labels:
    grafana_dashboard: "1"
data:
"""


def described() -> dict[str, Raw]:
    """Name of each dashboard → its title and panels."""
    found: dict[str, Raw] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return found


def files() -> dict[str, str]:
    """File name of each dashboard → what Grafana imports, a panel to a line."""
    return {f"lanloom-{name}.json": _dashboard(name, each) for name, each in described().items()}


def config_map() -> str:
    """Return the ConfigMap in which Grafana's sidecar looks for dashboards."""
    return _CONFIG_MAP + "".join(f"  {name}: |\n{indent(text, '    ')}" for name, text in files().items())


def _dashboard(name: str, described: Raw) -> str:
    head = {
        "uid": f"lanloom-{name}",
        "title": described["title"],
        "tags": ["lanloom"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
    }
    panels = ",\n".join(json.dumps(_panel(*each)) for each in enumerate(described["panels"]))
    return f'{json.dumps(head)[:-1]}, "panels": [\n{panels}\n]}}\n'


def _panel(number: int, described: Raw) -> Raw:
    row, column = divmod(number, _COLUMNS)
    targets = [
        {"refId": chr(ord("A") + position), "expr": query, "legendFormat": legend}
        for position, (legend, query) in enumerate(described["curves"].items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": described["title"],
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": described["unit"]}, "overrides": []},
        "targets": targets,
    }
