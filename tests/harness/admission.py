"""Admission requests as the API server sends them."""

from typing import Any

from lanloom.api.admission import AdmissionRequest, GroupVersionResource, UserInfo
from lanloom.api.resource import Resource

Raw = dict[str, Any]
ADMIN = "kubernetes-admin"


def request(
    resource: Resource[Any],
    new: Raw | None,
    old: Raw | None = None,
    *,
    user: str = ADMIN,
    status: bool = False,
    dry_run: bool = False,
) -> AdmissionRequest:
    """The request to create `new`, to change `old` to `new`, or to delete `old` (`new` is None)."""
    meta = (new or old or {}).get("metadata") or {}
    return AdmissionRequest(
        uid="1",
        operation="DELETE" if new is None else "CREATE" if old is None else "UPDATE",
        resource=GroupVersionResource(resource.group, resource.version, resource.plural),
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        sub_resource="status" if status else "",
        object=new,
        old_object=old,
        user_info=UserInfo(username=user),
        dry_run=dry_run,
    )
