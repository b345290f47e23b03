"""Why an object is not deleted: the features' answers, finalizers of others, and what the API server would refuse.

Users name the object by the words that kubectl knows for the kinds of the features.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from lanloom.api.core import NAMESPACES
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.errors import ApiError, BadRequest, NotFound
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.processes.definitions import resources
from lanloom.refusals import Malformed
from lanloom.runtime.blockers import Blocker, Usage, ask_all, of_others
from lanloom.runtime.feature import Feature, deletion_questions_of
from lanloom.text import listed, quote

if TYPE_CHECKING:
    from lanloom.kube.http import HttpClient

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_OTHER_KINDS = (
    "for an object of another kind, list its finalizers: "
    "kubectl get KIND NAME -o jsonpath={.metadata.finalizers}"
)


class Target(Struct, frozen=True):
    """The object that a user named."""

    resource: Resource[Any]
    key: Key


class Kinds:
    """The kinds that the features bring, by the words that mean them."""

    def __init__(self, features: Sequence[Feature] = FEATURES) -> None:
        self._words = {resource: _names(resource) for resource in resources(features)}

    def words(self) -> tuple[tuple[str, ...], ...]:
        """Return for each kind the words that mean it, the most common first."""
        return tuple(self._words.values())

    def complete(self, beginning: str) -> tuple[str, ...]:
        """Return for each kind that a word with this beginning can mean the first such word, sorted."""
        found = (
            next((word for word in words if word.startswith(beginning)), "") for words in self._words.values()
        )
        return tuple(sorted(filter(None, found)))

    def find(self, word: str) -> Resource[Any]:
        """Return the kind that a word means, in any case. Raises Malformed with the known kinds."""
        for resource, words in self._words.items():
            if word.lower() in words:
                return resource
        known = ", ".join(f"{resource.kind} ({words[0]})" for resource, words in self._words.items())
        raise Malformed(
            f"{quote(word)} is not a kind that Lanloom explains; choose one of {known}; {_OTHER_KINDS}"
        )

    def target(self, text: str, namespace: str) -> Target:
        """Parse `KIND/NAME` or `KIND/NAMESPACE/NAME`; `namespace` holds where none is given. Raises Malformed."""
        word, *rest = text.split("/")
        if not 1 <= len(rest) <= 2 or not all(rest):
            raise Malformed(f"{quote(text)} is not an object; write KIND/NAME, or KIND/NAMESPACE/NAME")
        resource, name = self.find(word), rest[-1]
        given = rest[0] if len(rest) == 2 else ""
        if given and not resource.namespaced:
            raise Malformed(f"a {resource.kind} has no namespace; write {word}/{name}")
        space = (given or namespace) if resource.namespaced else ""
        for part in (space, name):
            if part and not _NAME.fullmatch(part):
                raise Malformed(
                    f"{quote(part)} is not a valid object name; use small letters, digits, dashes and dots"
                )
        return Target(resource, Key(space, name))


def _names(resource: Resource[Any]) -> tuple[str, ...]:
    """Return the names under which kubectl knows a kind, in lower case."""
    names = (*resource.short_names, resource.singular, resource.plural)
    group = f"{resource.singular}.{resource.group}" if resource.group else resource.singular
    return tuple(dict.fromkeys((*names, group, resource.full_name)))


State = Literal["gone", "living", "leaving"]
"""The object does not exist; its deletion was not requested; it is being deleted."""

Trial = Callable[[Target], Awaitable[str]]
"""Request a deletion in a dry run: the server's refusal, empty if it would accept it. Raises KubeError."""

_DRY_RUN = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request: (.*)', re.DOTALL)


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why an object is not deleted; nothing blocks it if there are no blockers.

    `since` is its deletionTimestamp. `notes` are worth knowing and block nothing.
    """

    kind: str
    name: str
    state: State
    namespace: str = ""
    uid: str = ""
    since: str = ""
    blockers: tuple[Blocker, ...] = field(default=(), name="obstacles")
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The object for a message: `Nic default/web`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


async def explain(
    client: Client, target: Target, trial: Trial, *, features: Sequence[Feature] = FEATURES
) -> Explanation:
    """Collect everything that blocks a deletion, or would block it. Raises KubeError."""
    resource, key = target.resource, target.key
    try:
        item: Object = await client.get(resource, key.name, key.namespace)
    except NotFound as error:
        absent = f"The API server does not serve {resource.plural} of {resource.api_version}."
        notes: tuple[str, ...] = () if error.is_of(key.name) else (absent,)
        return Explanation(
            kind=resource.kind, name=key.name, namespace=key.namespace, state="gone", notes=notes
        )
    questions = [each for each in deletion_questions_of(features) if each.resource == resource]
    answer, others = await ask_all(client, questions, item), of_others(questions, item)
    deleting = item.metadata.is_deleting
    blockers = others if deleting else await _refusals(target, trial)
    return Explanation(
        kind=resource.kind,
        name=key.name,
        namespace=key.namespace,
        uid=item.metadata.uid,
        state="leaving" if deleting else "living",
        since=item.metadata.deletion_timestamp or "",
        blockers=(*blockers, *answer.blockers),
        notes=(
            *user_notes(answer.users),
            *answer.notes,
            *controller_notes(item),
            *await _deletion_notes(client, item, others),
        ),
    )


async def _refusals(target: Target, trial: Trial) -> list[Blocker]:
    text = await trial(target)
    return [refusal(text)] if text else []


def refusal(message: str) -> Blocker:
    """Explain the message by which the server refuses a deletion."""
    denied = _DENIED.search(message)
    whose = f"the admission webhook {denied[1]}" if denied else "the API server"
    why = denied[2] if denied else message
    return Blocker(what="a deletion would be refused", whose=whose, why=why)


def user_notes(users: Iterable[Usage]) -> tuple[str, ...]:
    """Name the users of a network, whether they block its deletion or not."""
    titles = [user.title for user in users]
    return (f"It is referenced by {listed(titles)}, which can't start without it.",) if titles else ()


def controller_notes(item: Object) -> tuple[str, ...]:
    """Name the controller that recreates the object if it is deleted."""
    return tuple(
        f"It was created by {owner.kind} {owner.name}, which recreates it; delete the {owner.kind} instead."
        for owner in item.metadata.owner_references
        if owner.controller
    )


async def _deletion_notes(client: Client, item: Object, others: list[Blocker]) -> tuple[str, ...]:
    """Say what else a deletion that was not requested would wait for, and that the namespace's deletion includes it."""
    meta = item.metadata
    if meta.is_deleting:
        return ()
    notes = tuple(f"A deletion would wait for {each.what} ({each.whose})." for each in others)
    space = await get_or_none(client, NAMESPACES, Key("", meta.namespace)) if meta.namespace else None
    if space is not None and space.metadata.is_deleting:
        since = space.metadata.deletion_timestamp
        notes += (f"Its namespace is being deleted (since {since}); the object is deleted with it.",)
    return notes


def dry_run(client: "HttpClient") -> Trial:
    """Return the trial by a dry run, in which every webhook is called."""

    async def trial(target: Target) -> str:
        path = target.resource.path(target.key.namespace, target.key.name)
        try:
            await client.request("DELETE", path, _DRY_RUN)
        except (NotFound, BadRequest):
            return ""  # it is gone, or a webhook with side effects can't be called in a dry run
        except ApiError as error:
            return str(error)
        return ""

    return trial
