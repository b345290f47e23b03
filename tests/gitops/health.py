"""How tools judge an object: Argo CD by the Lua script that is shipped, others by kstatus' rules."""

from functools import cache
from typing import Any

from lupa import LuaRuntime

from scripts.argocd import script

Raw = dict[str, Any]


@cache
def _check() -> Any:
    runtime = LuaRuntime(unpack_returned_tuples=True)
    return runtime, runtime.eval(f"function(obj)\n{script()}\nend")


def argo(obj: Raw) -> tuple[str, str]:
    """Return the health of an object in Argo CD, and its message."""
    runtime, check = _check()
    found = check(runtime.table_from(obj, recursive=True))
    return found["status"], found["message"]


def kstatus(obj: Raw) -> str:
    """Return the status of a custom object as sigs.k8s.io/cli-utils computes it, which Flux uses."""
    meta, status = obj["metadata"], obj.get("status", {})
    if meta.get("deletionTimestamp"):
        return "Terminating"
    observed = status.get("observedGeneration")
    if observed is not None and observed != meta.get("generation"):
        return "InProgress"
    conditions = {item["type"]: item["status"] for item in status.get("conditions", ())}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"
