"""Whatever is written in an option: either it is malformed, or it means something that can be written again."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from lanloom.features.ipam.cli.grammar.options import Option, parse_option, parse_parameters
from lanloom.features.ipam.cli.grammar.syntax import (
    new_pool,
    new_subnet,
    old_subnets,
    pool_step,
    reserved_steps,
    subnet_step,
)
from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.rules.change import Step, apply
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.subnets import (
    AddPool,
    AddReserved,
    AddSubnet,
    ModifyPool,
    ModifySubnet,
    RemovePool,
    RemoveReserved,
    RemoveSubnet,
)
from lanloom.features.ipam.rules.validate import check_network, check_transition
from lanloom.refusals import Malformed, Refusal
from tests.features.ipam.rules.network_text import ledger_for, network_with, uuid
from tests.harness.examples import examples

WORDS = """
add remove modify cidr gateway dhcp name pool subnet disabled no_ - = , : / . none true false x net_1 foo 0 1
10.0.0.1 10.0.0.0/24 10.0.0.7/27 10.0.0.5-10.0.0.9 2001:db8:: 2001:db8::add 2001:db8::/64 ::ffff:10.0.0.1 256.1.1.1 /33
,name=a ,gateway=10.0.0.1 ,cidr=10.0.0.0/25 add:cidr=10.1.0.0/16 :modify :remove ,dhcp ,pool ,-name
""".split()  # noqa: SIM905 — as a list it is unreadable
TEXTS = st.lists(st.sampled_from([*WORDS, uuid(1)]), max_size=8).map("".join) | st.text(max_size=30)

FORMS: dict[str, Callable[[str], tuple[Step, ...]]] = {
    "subnet": lambda text: (subnet_step(text),),
    "pool": lambda text: (pool_step(text),),
    "new subnet": lambda text: (new_subnet(text),),
    "new pool": lambda text: (new_pool(text),),
    "add reserved": lambda text: reserved_steps(text, True),
    "remove reserved": lambda text: reserved_steps(text, False),
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(300))
@given(text=TEXTS)
@example(text="add:cidr=10.0.0.7/24,gateway=10.0.0.1,name=a,dhcp,pool")
@example(text="\ud800")
@example(text="0\n")
def test_steps(form: str, text: str) -> None:
    """Only Malformed comes out of a text, or steps whose own text means the same."""
    try:
        steps = FORMS[form](text)
    except Malformed:
        return
    again = FORMS[form](",".join(rendered(step, "new" in form) for step in steps))
    assert [without_notes(step) for step in again] == [without_notes(step) for step in steps]


@settings(max_examples=examples(300))
@given(text=TEXTS)
def test_options(text: str) -> None:
    """An option that is accepted can be written again from its parts."""
    try:
        option = parse_option(text, "--x")
    except Malformed:
        return
    again = parse_option(option_text(option), "--x")
    assert (again.ident, again.action, again.bare, again.params) == (
        option.ident,
        option.action,
        option.bare,
        option.params,
    )


@given(text=TEXTS)
def test_parameters(text: str) -> None:
    """Parameters alone too."""
    try:
        option = parse_parameters(text, "--x")
    except Malformed:
        return
    again = parse_parameters(parameters_text(option), "--x")
    assert (again.bare, again.params) == (option.bare, option.params)


@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
def test_deprecated_options(texts: tuple[str, str, str, str]) -> None:
    """Whatever the deprecated options are, they are malformed or make a network that holds together."""
    network, gateway, network6, gateway6 = texts
    empty = Network(id="net1", name="net1")
    try:
        steps = old_subnets(network, gateway, network6, gateway6)
    except Malformed:
        return
    numbers = iter(range(1, 3))
    check_network(apply(empty, steps, ledger_for(empty), lambda: uuid(next(numbers))).network)


NET = network_with("cidr=10.0.0.0/24,name=foo,pool", "cidr=2001:db8::/64,gateway=2001:db8::1")


@settings(max_examples=examples(300))
@given(texts=st.lists(st.tuples(st.sampled_from(sorted(FORMS)), TEXTS), max_size=3))
def test_operations(texts: list[tuple[str, str]]) -> None:
    """Whatever is accepted is refused by name or makes a network that holds together."""
    ledger = ledger_for(NET, {"nic": ["10.0.0.5", "2001:db8::add"]})
    try:
        steps = [step for form, text in texts for step in FORMS[form](text)]
        after = apply(NET, steps, ledger, lambda: uuid(len(texts) + 10)).network
    except Refusal as error:
        assert len(str(error)) < 1000 and str(error).isprintable()
        return
    check_network(after)
    check_transition(NET, after, ledger)


def without_notes(step: Step) -> Step:
    """The step without what was noticed in reading it."""
    return replace(step, notes=()) if hasattr(step, "notes") else step


def option_text(option: Option) -> str:
    """The option's canonical text."""
    parameters = parameters_text(option)
    if not option.ident:
        return option.action + (f":{parameters}" if parameters else "")
    if option.action == "remove":
        return f"remove:{option.ident}"
    parts = (parameters, option.action) if option.bare else (option.action, parameters)
    return f"{option.ident}:" + ",".join(part for part in parts if part)


def parameters_text(option: Option) -> str:
    """`bare,key=value,…`."""
    words = [option.bare] if option.bare else []
    for key, value in option.params.items():
        flags = {True: key, False: f"no_{key}", None: f"-{key}"}
        words.append(f"{key}={value}" if isinstance(value, str) else flags[value])
    return ",".join(words)


def rendered(step: Step, new: bool) -> str:
    """A step as the text of an option."""
    match step:
        case AddSubnet():
            words = [f"cidr={step.cidr}", gateway_text(step.gateway), name_text(step.name)]
            words += [f"dhcp={step.dhcp}".lower(), f"pool={step.pool}".lower()]
            return ("" if new else "add:") + ",".join(words)
        case ModifySubnet():
            words = [] if step.cidr is None else [f"cidr={step.cidr}"]
            words += [] if step.gateway is UNSET else [gateway_text(step.gateway)]
            words += [] if step.dhcp is None else [f"dhcp={step.dhcp}".lower()]
            words += [] if step.name is None else [name_text(step.name)]
            return f"{step.ident}:modify," + ",".join(words)
        case AddPool():
            words = [str(step.range) if step.range else f"subnet={step.subnet}", name_text(step.name)]
            return ("" if new else "add:") + ",".join([*words, f"disabled={step.disabled}".lower()])
        case ModifyPool():
            words = [] if step.name is None else [name_text(step.name)]
            words += [] if step.disabled is None else [f"disabled={step.disabled}".lower()]
            return f"{step.ident}:modify," + ",".join(words)
        case RemoveSubnet() | RemovePool():
            return f"remove:{step.ident}"
        case AddReserved() | RemoveReserved():
            return str(step.range)
        case _:
            raise AssertionError(step)


def gateway_text(gateway: Address | None) -> str:
    """`gateway=…` or `gateway=none`."""
    return "gateway=none" if gateway is None else f"gateway={format_address(gateway)}"


def name_text(name: str) -> str:
    """`name=…` or `-name`."""
    return f"name={name}" if name else "-name"
