"""Lanloom's own pods under a kubelet of the lab: processes with their node's network."""

import base64

from lanloom.api.meta import ObjectMeta
from lanloom_lab.workloads.containers import (
    LONGEST_PAUSE,
    mounts,
    probe_line,
    shim_command,
)
from lanloom_lab.workloads.pods import (
    Container,
    Mount,
    Pod,
    PodSpec,
    Variable,
    Volume,
)
from tests.lab.workloads.site import (
    IMAGE,
    PLACE,
    Site,
    on_a_site,
)


@on_a_site
async def test_a_daemon_runs(site: Site) -> None:
    """A pod of Lanloom's image runs its arguments on the node, and has the node's address."""
    await site.add_daemon("d", probed=False)
    await site.rest()
    assert site.session().command[-5:] == ("python3", "-m", "lanloom", "dummy", "bridge")
    assert await site.is_ready("d")
    (status,) = (await site.seen("d")).status.container_statuses
    assert (status.ready, status.image_id) == (True, IMAGE)
    assert not site.hosts.namespaces


@on_a_site
async def test_others_with_the_host_network(site: Site) -> None:
    """A pod of another image with its node's network is said to run; nothing does."""
    await site.add_pod("x", hostNetwork=True)
    await site.rest()
    assert await site.is_ready("x")
    assert not site.hosts.sessions
    await site.delete("x")
    await site.rest()
    assert await site.pod("x") is None


@on_a_site
async def test_readiness(site: Site) -> None:
    """A pod is ready once its probe succeeds, and not any more when it has failed three times."""
    site.hosts.healthy = False
    await site.add_daemon("d")
    await site.rest()
    assert (await site.seen("d")).status.phase == "Running"
    assert not await site.is_ready("d")
    assert site.session().heard[0] == "look /run/x"
    site.session().healthy = True
    await site.rest(1.1)
    assert await site.is_ready("d")
    site.session().healthy = False
    await site.rest(2)
    assert await site.is_ready("d")
    await site.rest(2)
    assert not await site.is_ready("d")


@on_a_site
async def test_a_container_that_dies(site: Site) -> None:
    """A container that ends is started again, later each time; what it left in its termination log is reported."""
    await site.add_daemon("d")
    await site.rest()
    said = base64.b64encode(b"node1 has a link of that name").decode()
    site.session().end(1, said)
    await site.rest(0.5)
    (status,) = (await site.seen("d")).status.container_statuses
    assert status.state.waiting is not None
    assert status.state.waiting.reason == "CrashLoopBackOff"
    assert status.last_state.terminated is not None
    assert (status.last_state.terminated.exit_code, status.last_state.terminated.message) == (
        1,
        "node1 has a link of that name",
    )
    assert not await site.is_ready("d")
    await site.rest()
    assert len(site.hosts.sessions["n1"]) == 2
    assert await site.is_ready("d")
    for _ in range(8):
        site.session().end(1)
        await site.rest(LONGEST_PAUSE + 1)
    assert len(site.hosts.sessions["n1"]) == 10


@on_a_site
async def test_a_gentle_end(site: Site) -> None:
    """A deleted pod is asked to end; its object goes when it has."""
    await site.add_daemon("d")
    await site.rest()
    await site.delete("d")
    await site.rest(1)
    assert [line for line in site.session().heard if not line.startswith("look")] == ["term"]
    assert await site.pod("d") is None
    assert len(site.hosts.removed) == 1


@on_a_site
async def test_an_end_by_force(site: Site) -> None:
    """A container that does not end in its time is killed."""
    await site.add_daemon("d")
    await site.rest()
    site.session().obeys = False
    await site.delete("d", grace=10)
    await site.rest(8)
    assert "kill" not in site.session().heard
    assert await site.pod("d") is not None
    await site.rest(4)
    assert "kill" in site.session().heard
    assert await site.pod("d") is None


@on_a_site
async def test_a_node_goes_and_comes(site: Site) -> None:
    """The containers of a node that goes off are gone; they begin again when it is back."""
    await site.add_daemon("d")
    await site.rest()
    site.stop("n1")
    await site.rest(60)
    assert not await site.is_ready("d")
    assert "n1" not in site.hosts.sessions
    site.start("n1")
    await site.rest()
    assert await site.is_ready("d")
    (status,) = (await site.seen("d")).status.container_statuses
    assert status.last_state.terminated is None


@on_a_site
async def test_nothing_happens_without_pods(site: Site) -> None:
    """Without a change no status is written again."""
    await site.add_daemon("d")
    await site.add_pod("a")
    await site.rest()
    before = [(await site.seen(name)).metadata.resource_version for name in ("a", "d")]
    await site.rest(600)
    assert [(await site.seen(name)).metadata.resource_version for name in ("a", "d")] == before


def test_probes() -> None:
    """The look for a file needs no program; other commands arrive as they were given."""
    assert probe_line(("/usr/bin/test", "-e", "/run/a b")) == "look /run/a b"
    assert probe_line(("sh", "-c", "exit '1'")) == "probe sh -c 'exit '\"'\"'1'\"'\"''"


def test_the_command_of_a_container() -> None:
    """A container has devices of its own, its pod's empty directories, its environment and its command."""
    spec = Container(
        name="c",
        command=("sleep",),
        args=("1",),
        env=(Variable(name="A", value="b c"),),
        volume_mounts=(Mount(name="run", mount_path="/run/x y"), Mount(name="other", mount_path="/o")),
    )
    volumes = (Volume(name="run", empty_dir={"medium": "Memory"}), Volume(name="other"))
    pod = Pod(metadata=ObjectMeta(name="p", namespace=PLACE, uid="u"), spec=PodSpec(volumes=volumes))
    assert mounts(pod, spec, "/place") == (
        "/dev /place/dev none rbind\n"
        "tmpfs /dev tmpfs mode=755\n"
        "/run/pods/u/volumes/run /run/x\\040y none bind,X-mount.mkdir\n"
    )
    assert shim_command(pod, spec)[-3:] == ("A=b c", "sleep", "1")
