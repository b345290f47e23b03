"""What form of an answer a client accepts: JSON or YAML, and as it is, as a table, or only its metadata."""

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from lanloom.apiserver import errors

Encoding = Literal["application/json", "application/yaml"]
Transform = Literal["", "Table", "PartialObjectMetadata"]

OFFERED = ("application/json", "application/yaml")


class Form(Struct, frozen=True):
    """The form of an answer. `version` is that of meta.k8s.io for tables and metadata."""

    encoding: Encoding = "application/json"
    transform: Transform = ""
    version: str = "v1"


JSON_FORM = Form()


@lru_cache(512)
def negotiate(accept: str) -> Form:
    """The first form of an Accept header that can be made. Raises NotAcceptable."""
    if not accept:
        return JSON_FORM
    for clause in accept.split(","):
        found = _form(clause)
        if found is not None:
            return found
    raise errors.not_acceptable(OFFERED)


def plain(accept: str) -> Form:
    """The form of an answer that can't be a table. Raises NotAcceptable."""
    clauses = [clause for clause in accept.split(",") if ";as=" not in clause.replace(" ", "")]
    return negotiate(",".join(clauses)) if clauses else JSON_FORM


def _form(clause: str) -> Form | None:
    media_type, *rest = [part.strip() for part in clause.split(";")]
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    encoding: Encoding
    if media_type in ("application/json", "*/*", "application/*"):
        encoding = "application/json"
    elif media_type == "application/yaml":
        encoding = "application/yaml"
    else:
        return None
    wanted = parameters.get("as", "")
    if not wanted:
        return Form(encoding)
    version = parameters.get("v", "v1")
    if parameters.get("g") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if wanted == "Table":
        return Form(encoding, "Table", version)
    if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Form(encoding, "PartialObjectMetadata", version)
    return None
