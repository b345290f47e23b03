"""What users need to know before they delete objects of VLAN networks. Webhooks refuse what would harm a network."""

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.kube.ports import Reader
from lanloom.runtime.blockers import Answer, DeletionQuestion


def report_notes(report: ClusterNetworkNode) -> tuple[str, ...]:
    """Say that the agent recreates a deleted report."""
    node, network = report.status.node, report.status.cluster_network
    return (f"The agent of {node} recreates it while the node carries {network}.",) if node else ()


async def _query_report(_client: Reader, report: ClusterNetworkNode) -> Answer:
    return Answer(notes=report_notes(report))


BLOCKERS = (DeletionQuestion(resource=CLUSTER_NETWORK_NODES, ask=_query_report),)
