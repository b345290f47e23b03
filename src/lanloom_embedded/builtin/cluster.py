"""Kinds by which the cluster itself is run: leases, rights, custom resources, admission webhooks, reviews."""

from lanloom_embedded.builtin.shapes import (
    LABEL_SELECTOR,
    anything,
    conditions,
    flag,
    keyed,
    kind,
    mapping,
    record,
    small,
    text,
    time,
    values,
)
from lanloom_embedded.kinds import Raw, ServedKind

_LEASE = kind(
    "Who leads, and until when.",
    {
        "spec": record(
            "The lease.",
            {
                "holderIdentity": text("Who holds it."),
                "leaseDurationSeconds": small("Seconds after which others may take it."),
                "acquireTime": time("When its holder took it."),
                "renewTime": time("When its holder renewed it last."),
                "leaseTransitions": small("How often its holder changed."),
                "strategy": text("How its next holder is chosen."),
                "preferredHolder": text("Who should hold it."),
            },
            default={},
        )
    },
)

_RULE = record(
    "Something that may be done.",
    {
        "verbs": values("What may be done; * stands for everything."),
        "apiGroups": values("Groups of the resources; the core group is empty."),
        "resources": values("The resources; * stands for all of them."),
        "resourceNames": values("Names of the objects; none stands for all of them."),
        "nonResourceURLs": values("Paths that are no resources."),
    },
    required=("verbs",),
)
_RULES = values("What may be done.", _RULE, nullable=True)
_SUBJECTS = values(
    "Who gets the role.",
    record(
        "Somebody.",
        {
            "kind": text("User, Group or ServiceAccount."),
            "apiGroup": text("rbac.authorization.k8s.io for users and groups."),
            "name": text("The name."),
            "namespace": text("Namespace of a service account."),
        },
        required=("kind", "name"),
    ),
)
_ROLE_REF = record(
    "The role that is given. It can't be changed.",
    {
        "apiGroup": text("rbac.authorization.k8s.io."),
        "kind": text("Role or ClusterRole."),
        "name": text("Name of the role."),
    },
    required=("kind", "name"),
)
_AGGREGATION = record(
    "Collects the rules of other roles.",
    {"clusterRoleSelectors": values("Roles that are collected.", LABEL_SELECTOR)},
)

_CLIENT = record(
    "How the webhook is reached: by a URL or through a service.",
    {
        "url": text("Where it is; https only."),
        "caBundle": text("Certificates that its own is checked with.", format="byte"),
        "service": record(
            "The service in front of it.",
            {
                "namespace": text("Namespace of the service."),
                "name": text("Name of the service."),
                "path": text("Path of the URL."),
                "port": small("Port of the service.", default=443),
            },
            required=("namespace", "name"),
        ),
    },
)
_WEBHOOK_FIELDS: dict[str, Raw] = {
    "name": text("Name of the webhook, a domain of at least three parts."),
    "clientConfig": _CLIENT,
    "rules": values(
        "Requests that it is asked about.",
        record(
            "Some requests.",
            {
                "operations": values("CREATE, UPDATE, DELETE, CONNECT or *."),
                "apiGroups": values("Groups of the resources."),
                "apiVersions": values("Versions of the resources."),
                "resources": values("The resources."),
                "scope": text("Cluster, Namespaced or *.", default="*"),
            },
        ),
    ),
    "failurePolicy": text("What its failure means: Fail or Ignore.", default="Fail"),
    "matchPolicy": text("How rules match other versions: Exact or Equivalent.", default="Equivalent"),
    "namespaceSelector": LABEL_SELECTOR | {"default": {}},
    "objectSelector": LABEL_SELECTOR | {"default": {}},
    "sideEffects": text("None or NoneOnDryRun."),
    "timeoutSeconds": small("Seconds that it may take, 1 to 30.", default=10),
    "admissionReviewVersions": values("Versions of AdmissionReview that it understands."),
}
_WEBHOOK_REQUIRED = ("name", "clientConfig")
_REINVOCATION = text("Whether it is asked again: Never or IfNeeded.", default="Never")


def _webhooks(description: str, **more: Raw) -> Raw:
    webhook = record("A webhook.", _WEBHOOK_FIELDS | more, required=_WEBHOOK_REQUIRED)
    return kind(description, {"webhooks": keyed("The webhooks.", "name", webhook)})


_NAMES = {
    "plural": text("Plural name, in URLs."),
    "singular": text("Singular name."),
    "kind": text("The kind."),
    "listKind": text("The kind of lists."),
    "shortNames": values("Short names."),
    "categories": values("Categories as `all`."),
}
_COLUMN = record(
    "A column of `kubectl get`.",
    {
        "name": text("Its heading."),
        "type": text("integer, number, string, boolean or date."),
        "format": text("Its format."),
        "description": text("What it shows."),
        "priority": small("Above 0: with -o wide only."),
        "jsonPath": text("Where its value is."),
    },
)
_CRD_VERSION = record(
    "A version of the resource.",
    {
        "name": text("Its name, as v1."),
        "served": flag("Whether it is served.", default=False),
        "storage": flag("Whether objects are stored in it.", default=False),
        "deprecated": flag("Whether users should leave it."),
        "deprecationWarning": text("What users of it are told."),
        "schema": record("Its schema.", {"openAPIV3Schema": anything("An OpenAPI v3 schema.")}),
        "subresources": record(
            "Its subresources.", {"status": anything("The status."), "scale": anything("The scale.")}
        ),
        "additionalPrinterColumns": values("Columns of `kubectl get`.", _COLUMN),
        "selectableFields": values("Fields to select by.", anything()),
    },
)
_CRD = kind(
    "A resource that somebody adds to the API.",
    {
        "spec": record(
            "The resource.",
            {
                "group": text("Its group."),
                "names": record("Its names.", _NAMES),
                "scope": text("Cluster or Namespaced."),
                "versions": values("Its versions.", _CRD_VERSION),
                "conversion": record(
                    "How versions are converted.",
                    {"strategy": text("None or Webhook."), "webhook": anything("The converter.")},
                    required=("strategy",),
                    default={"strategy": "None"},
                ),
                "preserveUnknownFields": flag("No longer used; must be false."),
            },
            default={},
        ),
        "status": record(
            "State of the resource.",
            {
                "acceptedNames": record("Names that it got.", _NAMES),
                "conditions": {**conditions(), "nullable": True},
                "storedVersions": values("Versions in which objects were ever stored."),
            },
        ),
    },
)

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_EXTENSIONS = ("api-extensions",)


def _served(
    group: str,
    name: str,
    plural: str,
    schema: Raw,
    *,
    namespaced: bool = False,
    categories: tuple[str, ...] = (),
) -> ServedKind:
    return ServedKind(
        group=group,
        categories=categories,
        version="v1",
        kind=name,
        plural=plural,
        namespaced=namespaced,
        schema=schema,
        builtin=True,
    )


_ROLE = kind("Rights in a namespace.", {"rules": _RULES}, required=("rules",))
_CLUSTER_ROLE = kind("Rights in the whole cluster.", {"rules": _RULES, "aggregationRule": _AGGREGATION})
_BINDING_FIELDS = {"subjects": _SUBJECTS, "roleRef": _ROLE_REF}
_ROLE_BINDING = kind("Gives rights in a namespace.", _BINDING_FIELDS, required=("roleRef",))
_CLUSTER_ROLE_BINDING = kind("Gives rights in the whole cluster.", _BINDING_FIELDS, required=("roleRef",))

KINDS = (
    _served("coordination.k8s.io", "Lease", "leases", _LEASE, namespaced=True),
    _served(_RBAC, "Role", "roles", _ROLE, namespaced=True),
    _served(_RBAC, "ClusterRole", "clusterroles", _CLUSTER_ROLE),
    _served(_RBAC, "RoleBinding", "rolebindings", _ROLE_BINDING, namespaced=True),
    _served(_RBAC, "ClusterRoleBinding", "clusterrolebindings", _CLUSTER_ROLE_BINDING),
    _served(
        _ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        _webhooks("Webhooks that may change objects.", reinvocationPolicy=_REINVOCATION),
        categories=_EXTENSIONS,
    ),
    _served(
        _ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        _webhooks("Webhooks that may refuse objects."),
        categories=_EXTENSIONS,
    ),
    ServedKind(
        group="apiextensions.k8s.io",
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=_EXTENSIONS,
        has_status=True,
        schema=_CRD,
        builtin=True,
    ),
)


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


REVIEWS = (
    _answered("SelfSubjectAccessReview", "selfsubjectaccessreviews", _SELF_REVIEW),
    _answered("SelfSubjectRulesReview", "selfsubjectrulesreviews", _RULES_REVIEW),
    _answered("SelfSubjectReview", "selfsubjectreviews", _WHO_AM_I, "authentication.k8s.io"),
    _answered("SubjectAccessReview", "subjectaccessreviews", _SUBJECT_REVIEW),
)
