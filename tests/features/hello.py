"""A feature that greets: what a new feature writes, in one place and touching no other file."""

import click
from msgspec import Struct

from lanloom.api.admission import AdmissionRequest, new_of
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller
from lanloom.kube.ports import Reader
from lanloom.refusals import Malformed
from lanloom.runtime.blockers import Answer, Blocker, DeletionQuestion
from lanloom.runtime.cni.calls import Call, Raw
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.context import AgentContext, AgentPart, ManagerContext, ManagerPart
from lanloom.runtime.feature import CommandOptions, Feature
from lanloom.runtime.rights import FOLLOW, Access, Rights
from lanloom.runtime.webhooktable import WRITTEN, TableAdmission, Webhook


class GreetingSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Who is greeted."""

    whom: str = ""


class GreetingStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What was said."""

    said: str = ""


class Greeting(Object, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A greeting."""

    spec: GreetingSpec = GreetingSpec()
    status: GreetingStatus = GreetingStatus()


GREETINGS: Resource[Greeting] = Resource(
    group="hello.lanloom.io",
    version="v1",
    kind="Greeting",
    plural="greetings",
    type=Greeting,
    namespaced=False,
    status=True,
)

FINALIZER = "hello.lanloom.io/answered"

RIGHTS = Rights(
    own=(GREETINGS,),
    manager=Access(
        cluster=(
            {"apiGroups": [GREETINGS.group], "resources": ["greetings"], "verbs": FOLLOW},
            {"apiGroups": [GREETINGS.group], "resources": ["greetings/status"], "verbs": ["patch"]},
        )
    ),
    agent=Access(cluster=({"apiGroups": [GREETINGS.group], "resources": ["greetings"], "verbs": FOLLOW},)),
)


class HelloAdmission(TableAdmission):
    """Answers admission requests about greetings."""

    async def judge(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Refuses a greeting without a name."""
        new = new_of(GREETINGS, request)
        if new is not None and not new.spec.whom:
            raise Malformed(f"Greeting {new.metadata.name}: spec.whom is empty; say whom to greet")
        return ()


WEBHOOKS = (Webhook("validate", GREETINGS, WRITTEN, HelloAdmission.judge),)


def build(context: ManagerContext) -> ManagerPart:
    """A controller that greets."""
    greetings = context.informers.get(GREETINGS)

    async def reconcile(name: str) -> None:
        found = greetings.store.get(Key("", name))
        if found is not None and not found.status.said:
            status = {"status": {"said": f"Hello, {found.spec.whom}."}}
            await context.client.patch(GREETINGS, name, status, subresource="status")

    controller: Controller[str] = Controller("greeting", reconcile, rng=context.rng, observe=context.observe)
    greetings.on_change(lambda old, new: controller.enqueue((new or old or Greeting()).metadata.name))
    return ManagerPart(run=controller.run, controllers=(controller,), admission=HelloAdmission(WEBHOOKS))


async def ask(_client: Reader, greeting: Greeting) -> Answer:
    """A greeting stays until it is answered."""
    why = f"{greeting.spec.whom} has not answered"
    return Answer((Blocker(what=f"finalizer {FINALIZER}", whose="Hello", why=why, remedy="Wait."),))


BLOCKERS = (DeletionQuestion(resource=GREETINGS, finalizer=FINALIZER, ask=ask),)


AGENT_OPTIONS = CommandOptions(
    (click.option("--hello-tone", metavar="TONE", default="kind", help="Tone of greetings on this node."),),
    lambda values: values["hello_tone"],
)


@click.command(name="hello")
def command() -> None:
    """Greet."""
    click.echo("Hello.")


async def greet_cni(_call: Call) -> Raw:
    """Answer the CNI program."""
    return {"greeting": "hello"}


def build_agent(context: AgentContext) -> AgentPart:
    """Answer the CNI program, and do nothing else."""

    async def rest() -> None:
        return

    return AgentPart(run=rest, cni=CniService(answer=greet_cni) if context.cni is not None else None)


FEATURE = Feature(
    name="hello",
    rights=f"{__name__}:RIGHTS",
    webhooks=f"{__name__}:WEBHOOKS",
    manager=f"{__name__}:build",
    agent_options=f"{__name__}:AGENT_OPTIONS",
    blockers=f"{__name__}:BLOCKERS",
    agent=f"{__name__}:build_agent",
    cni=("hello",),
    commands={"hello": (__name__, "Greet.")},
)
