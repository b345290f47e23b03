"""What `kubectl get` shows of Lanloom's kinds."""

from typing import Any

import msgspec

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork, ClusterNetworkStatus
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom_embedded.tables.custom import custom_layout
from tests.features.vlan.views.fixture import (
    READY,
    STATIC,
    interface,
    report,
    static_network,
)

MISSING = Condition(type="L3Ready", status="False", reason="MissingAddress", message="add one")
WELL = Condition(type="L3Ready", status="True", reason="AddressesReady")


def shown(resource: Resource[Any], obj: object, *, wide: bool = False) -> dict[str, Any]:
    """The cells of an object by column, the age left out."""
    (version,) = manifest(resource)["spec"]["versions"]
    layout = custom_layout(version["additionalPrinterColumns"])
    raw = msgspec.json.decode(msgspec.json.encode(obj))
    cells = zip(layout.columns, layout.cells(raw, 0.0), strict=True)
    return {
        column.name: cell for column, cell in cells if column.name != "Age" and (wide or not column.priority)
    }


def test_a_report_tells_its_story() -> None:
    """A ClusterNetworkNode shows the first reason that is not well, its VLAN ids and all its addresses."""
    second = interface("node1", vlan_id=7, address="10.9.0.1/24")
    status = report("node1", interface("node1"), second, conditions=(READY, MISSING))
    assert shown(CLUSTER_NETWORK_NODES, status) == {
        "Name": "cluster-1-node1-ad477360",
        "Node": "node1",
        "Ready": "True",
        "L3": "False",
        "Reason": "MissingAddress",
        "VLANs": "1,2012",
        "Addresses": f"{STATIC['node1']},10.9.0.1/24",
        "MTU": "1500",
    }


def test_no_reason_where_all_is_well() -> None:
    """A cluster network that is well shows no reason; the message is for wide output only."""
    status = ClusterNetworkStatus(conditions=(READY, WELL))
    network = ClusterNetwork(metadata=ObjectMeta(name="cluster-1"), status=status)
    cells = shown(CLUSTER_NETWORKS, network)
    assert (cells["Ready"], cells["L3"], cells["Reason"]) == ("True", "True", None)
    assert "Message" not in cells
    assert "Message" in shown(CLUSTER_NETWORKS, network, wide=True)


def test_a_network_shows_its_vlan_and_mode() -> None:
    """A NAD shows its cluster network, VLAN id and how nodes get addresses."""
    cells = shown(NADS, static_network())
    assert (cells["Cluster-Network"], cells["VLAN"], cells["L3"], cells["Mode"]) == (
        "cluster-1",
        "2012",
        "true",
        "static",
    )
