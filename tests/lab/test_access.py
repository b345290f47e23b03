"""The keys of a lab's nodes."""

import json
from pathlib import Path

from lanloom_lab.layout import NodeRecord
from lanloom_lab.nodes import node_kubeconfig, tokens_file
from lanloom_lab.plan import NodeSpec

NODE = NodeRecord(NodeSpec("node1", 0), "s3cret")


def test_a_token_makes_an_agent() -> None:
    """A node's token stands for the agent of that node and for the group of agents."""
    assert (
        tokens_file([NODE])
        == b"s3cret,system:lanloom:node:node1,system:lanloom:node:node1,system:lanloom:agents\n"
    )


def test_a_node_trusts_the_lab(tmp_path: Path) -> None:
    """A node's kubeconfig has its own token, the lab's authority and the server's address inside."""
    administrator = tmp_path / "kubeconfig"
    administrator.write_text(
        "clusters: [{name: x, cluster: {server: here, certificate-authority-data: Q0E=}}]"
    )
    config = json.loads(node_kubeconfig(administrator, NODE))
    assert config["clusters"][0]["cluster"] == {
        "server": "https://172.31.255.1:6443",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"][0]["user"] == {"token": "s3cret"}
