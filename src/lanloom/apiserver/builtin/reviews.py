"""Access reviews: questions that are answered and never stored (`kubectl auth can-i`)."""

from lanloom.apiserver.builtin.shapes import anything, flag, kind, mapping, record, text, values
from lanloom.apiserver.kinds import Raw, ServedKind

_ATTRIBUTES = record(
    "An action on a resource.",
    {name: text() for name in ("namespace", "verb", "group", "version", "resource", "subresource", "name")}
    | {"fieldSelector": anything(), "labelSelector": anything()},
)
_REVIEW_SPEC: dict[str, Raw] = {
    "resourceAttributes": _ATTRIBUTES,
    "nonResourceAttributes": record("An action on a path.", {"path": text(), "verb": text()}),
}
_REVIEW_STATUS = record(
    "The answer.",
    {
        "allowed": flag("Whether the action is allowed."),
        "denied": flag("Whether it is forbidden for sure."),
        "reason": text("Why."),
        "evaluationError": text("What went wrong."),
    },
)


def _review(description: str, **more: Raw) -> Raw:
    spec = record("The question.", _REVIEW_SPEC | more)
    return kind(description, {"spec": spec, "status": _REVIEW_STATUS}, required=("spec",))


_SELF_REVIEW = _review("Asks whether one may do something oneself.")
_SUBJECT_REVIEW = _review(
    "Asks whether somebody may do something.",
    user=text("The user."),
    groups=values("The user's groups."),
    uid=text("The user's UID."),
    extra=mapping("More about the user.", values()),
)


def _answered(name: str, plural: str, schema: Raw) -> ServedKind:
    return ServedKind(
        group="authorization.k8s.io",
        version="v1",
        kind=name,
        plural=plural,
        namespaced=False,
        verbs=("create",),
        schema=schema,
        builtin=True,
        storage=False,
    )


KINDS = (
    _answered("SelfSubjectAccessReview", "selfsubjectaccessreviews", _SELF_REVIEW),
    _answered("SubjectAccessReview", "subjectaccessreviews", _SUBJECT_REVIEW),
)
