"""The keys of a lab: which node shows which token to the API server, and where it finds it.

The administrator's kubeconfig is written by the API server itself; a node's is derived from it, with the node's own
token and the server's address in the management network.
"""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lanloom.api.names import AGENTS_GROUP, NODE_USER_PREFIX
from lanloom.lab.layout import NodeRecord
from lanloom.lab.plan import API_PORT, SUPERVISOR_ADDRESS


def tokens_file(nodes: Iterable[NodeRecord]) -> bytes:
    """The nodes' tokens in the form of Kubernetes' static token file: token, user, uid, groups."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for node in nodes:
        user = f"{NODE_USER_PREFIX}{node.spec.name}"
        writer.writerow((node.token, user, user, AGENTS_GROUP))
    return lines.getvalue().encode()


def node_kubeconfig(administrator: Path, node: NodeRecord) -> bytes:
    """A node's access to the API server, as JSON, which is YAML too."""
    config: dict[str, Any] = yaml.load(administrator.read_bytes(), Loader=yaml.CSafeLoader)
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    server = f"https://{SUPERVISOR_ADDRESS}:{API_PORT}"
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "lab", "cluster": {"server": server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": node.spec.name, "user": {"token": node.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": node.spec.name}}],
            "current-context": "lab",
        }
    )
