"""`lanloom crds` on a cluster in which a definition is being deleted."""

from pathlib import Path

from lanloom.api.core import CRDS
from lanloom.api.ipam import NETWORKS
from tests.cli.cluster import served


def test_a_definition_in_deletion_is_no_success(tmp_path: Path) -> None:
    """`--apply` fails with what to do where a definition waits for its objects; a look shows it."""
    waiting = {"metadata": {"name": "x", "finalizers": ["example.com/wait"]}, "spec": {"subnets": []}}
    with served(tmp_path) as cluster:
        cluster.do(lambda client: client.create(NETWORKS, waiting))
        cluster.do(lambda client: client.delete(CRDS, NETWORKS.full_name))
        look = cluster.lanloom("crds")
        done = cluster.lanloom("crds", "--apply")
    assert (look.exit_code, done.exit_code) == (0, 1)
    assert f"being deleted {NETWORKS.full_name}" in look.output
    assert f"kubectl wait --for=delete crd/{NETWORKS.full_name}" in done.output
