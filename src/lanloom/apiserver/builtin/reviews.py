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

_RULES_REVIEW = kind(
    "Asks for the rules that hold for oneself in a namespace.",
    {
        "spec": record("The question.", {"namespace": text("The namespace.")}),
        "status": record(
            "The answer.",
            {
                "resourceRules": values("What may be done to resources.", anything()),
                "nonResourceRules": values("What may be done to other paths.", anything()),
                "incomplete": flag("Whether there may be more rules."),
                "evaluationError": text("What went wrong."),
            },
        ),
    },
)
_WHO_AM_I = kind(
    "Asks who one is.",
    {"status": record("The answer.", {"userInfo": anything("The user that the credentials stand for.")})},
)


def _answered(name: str, plural: str, schema: Raw, group: str = "authorization.k8s.io") -> ServedKind:
    return ServedKind(
        group=group,
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
    _answered("SelfSubjectRulesReview", "selfsubjectrulesreviews", _RULES_REVIEW),
    _answered("SelfSubjectReview", "selfsubjectreviews", _WHO_AM_I, "authentication.k8s.io"),
    _answered("SubjectAccessReview", "subjectaccessreviews", _SUBJECT_REVIEW),
)
