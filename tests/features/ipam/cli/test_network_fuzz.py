"""Whatever is written into options of `lanloom network`: an answer of one line, never a traceback or half a change."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.cluster import Cluster, served

_TOKENS = (
    "add remove modify : , = / - cidr gateway dhcp name pool subnet disabled true false none no_dhcp -gateway foo",
    "pool1 192.0.2.0/24 192.0.2.1 192.0.2.10-192.0.2.19 192.0.2.255 10.0.0.0/8 10.0.0.1 2001:db8::/64 2001:db8::1",
    "::/0 0.0.0.0/0 255.255.255.255 ::ffff:192.0.2.1 192.0.2.0/33 link mode vlan br0 bridged 4095 é \x00",
)
TOKENS = st.sampled_from(["\n", *(token for line in _TOKENS for token in line.split(" "))])
TEXTS = st.one_of(
    st.text(max_size=20),
    st.lists(TOKENS, max_size=6).map("".join),
    st.tuples(TOKENS, st.sampled_from([":", ""]), st.lists(TOKENS, max_size=5).map(",".join)).map("".join),
    st.lists(st.tuples(TOKENS, st.sampled_from(["=", ""]), TOKENS).map("".join), max_size=4).map(
        lambda parts: "add:" + ",".join(parts)
    ),
)
OPTIONS = {
    "add": (
        *("--subnet", "--pool", "--add-reserved-ips", "--mac-prefix", "--tags"),
        *("--network", "--gateway", "--network6", "--gateway6"),
    ),
    "modify": (
        *("--subnet", "--pool", "--add-reserved-ips", "--remove-reserved-ips", "--mac-prefix"),
        *("--gateway", "--network6", "--gateway6"),
    ),
    "connect": ("--nic-parameters",),
    "list": ("-o", "--separator", "--output"),
}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its options, each with any text, and now and then any name."""
    command = draw(st.sampled_from(sorted(OPTIONS)))
    chosen = draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=3))
    words = [command, *(f"{option}={draw(TEXTS)}" for option in chosen)]
    if command != "list":
        words += ["--dry-run", "--", draw(st.one_of(st.just("net1"), TEXTS))]
    return [*words, draw(TEXTS)] if command == "connect" else words


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A network with subnets, pools and a NIC."""
    with served(tmp_path_factory.mktemp("cluster")) as made:
        subnets = "--subnet cidr=192.0.2.0/24,name=foo --subnet cidr=2001:db8::/64"
        words = f"add {subnets} --pool 192.0.2.10-192.0.2.19,name=pool1 net1"
        assert made.lanloom("network", *words.split()).exit_code == 0
        made.nic("nic0", "inst1", "net1", "192.0.2.10", "2001:db8::1")
        yield made


@given(words=command_lines())
@settings(max_examples=100)
def test_any_text_has_an_answer(cluster: Cluster, words: list[str]) -> None:
    """The exit status is 0, 1 or 2, an error is one line, and a look ahead changes nothing."""
    before = cluster.state()
    done = cluster.lanloom("network", *words)
    assert done.exit_code in (0, 1, 2)
    if done.exit_code:
        assert done.stdout == ""
        errors = [
            line for line in done.stderr.splitlines() if line and not line.startswith(("Usage: ", "Try "))
        ]
        assert len(errors) == 1, done.stderr
        assert errors[0].startswith("Error: ")
    assert cluster.state() == before
