"""The rights of deploy/rbac.yaml as a real kube-apiserver understands them: what must not be allowed is not.

That they suffice is shown by what runs with them, see `test_deploy_real` and `tests/features/dummy/cluster`.
"""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
OWN = LANLOOM_NAMESPACE
WEBHOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
Right = tuple[str, str, str, str]
"""Verb, resource with group and subresource, namespace, name."""

MANAGER: dict[Right, bool] = {
    ("get", "secrets", OWN, "lanloom-webhook"): True,
    ("watch", "secrets", OWN, "lanloom-webhook"): True,
    ("get", "secrets", OWN, "another"): False,
    ("list", "secrets", OWN, ""): False,
    ("patch", "secrets", OWN, "another"): False,
    ("get", "secrets", "default", "lanloom-webhook"): False,
    ("watch", "configmaps", OWN, "lanloom-dummy"): True,
    ("watch", "configmaps", OWN, ""): False,
    ("patch", "configmaps", OWN, "lanloom-dummy"): False,
    ("patch", "leases.coordination.k8s.io", OWN, "lanloom-manager"): True,
    ("patch", "leases.coordination.k8s.io", OWN, "another"): False,
    ("create", "leases.coordination.k8s.io", "kube-system", ""): False,
    ("delete", "leases.coordination.k8s.io", BRIDGES_NAMESPACE, "lan-uplink-2012-cluster-1"): True,
    ("patch", "leases.coordination.k8s.io", BRIDGES_NAMESPACE, "lan-uplink-2012-cluster-1"): False,
    ("patch", WEBHOOKS, "", "lanloom"): True,
    ("patch", WEBHOOKS, "", "another"): False,
    ("delete", WEBHOOKS, "", "lanloom"): False,
    ("create", WEBHOOKS, "", ""): False,
    ("create", "daemonsets.apps", BRIDGES_NAMESPACE, ""): True,
    ("patch", "daemonsets.apps", BRIDGES_NAMESPACE, "any"): True,
    ("create", "daemonsets.apps", OWN, ""): False,
    ("patch", "daemonsets.apps", OWN, "lanloom-agent"): False,
    ("delete", "daemonsets.apps", OWN, "any"): True,
    ("create", "daemonsets.apps", "default", ""): False,
    ("patch", "daemonsets.apps", "kube-system", "kube-proxy"): False,
    ("watch", "daemonsets.apps", "", ""): True,
    ("watch", "deployments.apps", "", ""): True,
    ("patch", "deployments.apps", OWN, "lanloom-manager"): False,
    ("watch", "pods", "", ""): True,
    ("create", "pods", OWN, ""): False,
    ("create", "pods/exec", OWN, "any"): False,
    ("get", "pods/log", OWN, "any"): False,
    ("delete", "pods", OWN, "any"): False,
    ("patch", "nodes", "", "node1"): False,
    ("watch", "services", "default", "kubernetes"): True,
    ("watch", "services", "default", ""): False,
    ("watch", "servicecidrs.networking.k8s.io", "", ""): True,
    ("patch", "servicecidrs.networking.k8s.io", "", "kubernetes"): False,
    ("watch", "endpointslices.discovery.k8s.io", "default", "kubernetes"): True,
    ("watch", "endpointslices.discovery.k8s.io", "default", ""): False,
    ("list", "endpointslices.discovery.k8s.io", OWN, ""): True,
    ("patch", "virtualmachines.kubevirt.io", "default", "any"): True,
    ("patch", "virtualmachines.kubevirt.io/status", "default", "any"): True,
    ("delete", "virtualmachines.kubevirt.io", "default", "any"): False,
    ("patch", "virtualmachineinstances.kubevirt.io", "default", "any"): True,
    ("delete", "virtualmachineinstances.kubevirt.io", "default", "any"): False,
    ("patch", "pods", "default", "any"): False,
    ("patch", "pods/status", "default", "any"): True,
    ("create", "virtualmachineinstancemigrations.kubevirt.io", "default", ""): True,
    ("delete", "virtualmachineinstancemigrations.kubevirt.io", "default", "any"): True,
    ("patch", "virtualmachineinstancemigrations.kubevirt.io", "default", "any"): False,
    ("watch", "kubevirts.kubevirt.io", "", ""): True,
    ("patch", "kubevirts.kubevirt.io", "default", "any"): False,
    ("patch", "dummyclusternetworks.network.harvester.io", "", "any"): True,
    ("patch", "dummyclusternetworks.network.harvester.io/status", "", "any"): True,
    ("delete", "dummyclusternetworks.network.harvester.io", "", "any"): False,
    ("get", "customresourcedefinitions.apiextensions.k8s.io", "", "virtualmachines.kubevirt.io"): True,
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", "", "virtualmachines.kubevirt.io"): False,
    ("create", "clusterroles.rbac.authorization.k8s.io", "", ""): False,
    ("create", "serviceaccounts/token", OWN, "lanloom-agent"): False,
    ("impersonate", "users", "", "admin"): False,
}

AGENT: dict[Right, bool] = {
    ("watch", "dummyclusternetworks.network.harvester.io", "", ""): True,
    ("patch", "dummyclusternetworks.network.harvester.io", "", "any"): False,
    ("patch", "dummyclusternetworks.network.harvester.io/status", "", "any"): False,
    ("patch", "network-attachment-definitions.k8s.cni.cncf.io", "default", "any"): False,
    ("create", "daemonsets.apps", OWN, ""): False,
    ("watch", "pods", "", ""): True,
    ("patch", "pods", "default", "any"): False,
    ("delete", "pods", "default", "any"): False,
    ("patch", "virtualmachineinstances.kubevirt.io", "default", "any"): False,
    ("get", "secrets", OWN, "lanloom-webhook"): False,
    ("get", "configmaps", OWN, "lanloom-dummy"): False,
    ("patch", "leases.coordination.k8s.io", OWN, "lanloom-manager"): False,
    ("list", "leases.coordination.k8s.io", BRIDGES_NAMESPACE, ""): True,
    ("delete", "leases.coordination.k8s.io", BRIDGES_NAMESPACE, "lan-uplink-2012-cluster-1"): False,
}


VIEWERS, EDITORS, ADMINS = ("view", "edit", "admin"), ("edit", "admin"), ("admin",)
TENANTS: dict[Right, tuple[str, ...]] = {
    ("list", "nics.ipam.lanloom.io", "default", ""): VIEWERS,
    ("watch", "networkswaps.liveupdate.lanloom.io", "default", ""): VIEWERS,
    ("get", "lans.lan.k8slan.io", "default", "any"): VIEWERS,
    ("get", "network-attachment-definitions.k8s.cni.cncf.io", "default", "any"): VIEWERS,
    ("create", "nics.ipam.lanloom.io", "default", ""): EDITORS,
    ("deletecollection", "networkswaps.liveupdate.lanloom.io", "default", ""): EDITORS,
    ("update", "lans.lan.k8slan.io", "default", "any"): ADMINS,
    ("patch", "nics.ipam.lanloom.io/status", "default", "any"): (),
    ("patch", "lans.lan.k8slan.io/status", "default", "any"): (),
    ("create", "network-attachment-definitions.k8s.cni.cncf.io", "default", ""): (),
    ("list", "nics.ipam.lanloom.io", "kube-system", ""): (),
    ("list", "nics.ipam.lanloom.io", "", ""): (),
    ("patch", "networks.ipam.lanloom.io", "", "any"): (),
    ("patch", "clusternetworks.network.harvesterhci.io", "", "any"): (),
    ("create", "dummyclusternetworks.network.harvester.io", "", ""): (),
    ("patch", "lannodes.lan.lanloom.io", "", "any"): (),
}
"""Rights in a namespace, and Kubernetes' roles that have them when they are bound there."""


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver that knows the roles."""
    with RealServer(real_binaries, controllers=("clusterrole-aggregation",)) as running:
        kubectl = [str(real_binaries / "kubectl"), "--kubeconfig", str(running.kubeconfig)]
        for name in ("manager.yaml", "rbac.yaml"):
            words = [*kubectl, "apply", "-f", str(ROOT / "deploy" / name)]
            subprocess.run(words, check=True, capture_output=True)
        yield running


@pytest.mark.parametrize(("process", "rights"), [("manager", MANAGER), ("agent", AGENT)])
async def test_what_each_process_may_do(server: RealServer, process: str, rights: dict[Right, bool]) -> None:
    """An account may do what its process needs, to the one object that it needs, and nothing besides that."""
    async with HttpClient(load(str(server.kubeconfig))) as admin:
        await eventually(partial(roles_are_known, admin), bool)
        for right, expected in rights.items():
            assert await allowed(admin, process, right) is expected, right


async def test_what_the_roles_of_tenants_may_do(server: RealServer) -> None:
    """Kubernetes' own roles have Lanloom's kinds in the namespace where they are bound, and nothing elsewhere."""
    async with HttpClient(load(str(server.kubeconfig))) as admin:
        for role in VIEWERS:
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"tenant-{role}"}
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
            await admin.request(
                "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding
            )

        async def roles_of(right: Right) -> tuple[str, ...]:
            has = {
                role: await may(admin, f"tenant-{role}", ("system:authenticated",), right) for role in VIEWERS
            }
            return tuple(role for role, allows in has.items() if allows)

        for right, roles in TENANTS.items():
            expected = roles
            assert await eventually(partial(roles_of, right), lambda found: found == expected) == roles, right  # noqa: B023


async def test_the_pods_that_keep_bridges_may_do_nothing(server: RealServer) -> None:
    """The account whose name those pods have, and whose token they don't get, has no rights of ours anyway."""
    async with HttpClient(load(str(server.kubeconfig))) as admin:
        await eventually(partial(roles_are_known, admin), bool)
        for right in (*MANAGER, *AGENT):
            assert not await allowed(admin, "", right), right


async def roles_are_known(admin: HttpClient) -> bool:
    """Whether the server goes by all roles and bindings by now, of which it learns a moment after they are written."""
    wanted = (("manager", MANAGER), ("agent", AGENT))
    return all(
        [
            await allowed(admin, process, right)
            for process, rights in wanted
            for right, expected in rights.items()
            if expected
        ]
    )


async def allowed(admin: HttpClient, process: str, right: Right) -> bool:
    """Whether a process's account may do something; without a process, the namespace's default account."""
    account = f"lanloom-{process}" if process else "default"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated")
    return await may(admin, f"system:serviceaccount:{OWN}:{account}", groups, right)


async def may(admin: HttpClient, user: str, groups: tuple[str, ...], right: Right) -> bool:
    """Whether a user may do something."""
    verb, title, namespace, name = right
    resource, _, subresource = title.partition("/")
    plural, _, group = resource.partition(".")
    attributes: dict[str, Any] = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
    }
    spec = {
        "user": user,
        "groups": list(groups),
        "resourceAttributes": attributes | {"namespace": namespace, "name": name},
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])
