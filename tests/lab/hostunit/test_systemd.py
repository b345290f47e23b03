"""The units on a host that systemd booted, and what systemd thinks of them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom.hostunit import Tree, host_files, host_links, unit_names
from tests.lab.hostunit.booted import BootedHost
from tests.lab.hostunit.host import address, content, name


@pytest.fixture(scope="module")
def booted() -> Iterator[BootedHost]:
    """A host without the unit."""
    host = BootedHost()
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def host(booted: BootedHost) -> BootedHost:
    """The host with the unit installed."""
    done = booted.lanloom("host", "install")
    assert done.returncode == 0, done.stderr
    return booted


def test_systemd_accepts_the_units() -> None:
    """`systemd-analyze verify` has nothing to say of the units, nor of a boot with them and NetworkManager."""
    tree = Tree(Path("/"))
    for file in host_files():
        tree.write(file)
    for link in host_links():
        tree.write_link(link)
    words = ["systemd-analyze", "verify", "--man=no", *unit_names(), "multi-user.target"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "lanloom" in line or "cycle" in line]
    for path in (*(link.path for link in host_links()), *(file.path for file in host_files())):
        tree.remove(path)
    assert (done.returncode, said) == (0, [])


def test_profiles_get_into_force(host: BootedHost) -> None:
    """A new profile gets active, an edit is applied, and a removed one takes its device along, without any agent."""
    host.put(name(1), content(1))
    host.until(lambda: host.address(101) == address(1))
    host.put(name(1), content(1, host=2))
    host.until(lambda: host.address(101) == address(1, 2))
    (host.directory / name(1)).unlink()
    host.until(lambda: not host.address(101))


def test_a_burst_does_not_switch_it_off(host: BootedHost) -> None:
    """60 files, one after the other, all get active, and the path unit still watches."""
    numbers = range(60)
    for number in numbers:
        host.put(name(number), content(number))
        host.run("true")
    host.until(lambda: all(host.address(100 + number) == address(number) for number in numbers))
    for number in numbers:
        (host.directory / name(number)).unlink()
    host.until(lambda: not any(host.address(100 + number) for number in numbers))
    assert host.run("systemctl", "is-active", "lanloom-nm-reload.path").stdout.strip() == "active"


def test_install_status_uninstall(booted: BootedHost) -> None:
    """It is installed once, status tells so, and uninstalling leaves neither files nor units."""
    booted.lanloom("host", "install")
    again = booted.lanloom("host", "install")
    assert (again.returncode, again.stdout) == (0, "The unit is installed already; nothing to do.\n")
    status = booted.lanloom("host", "status")
    assert status.returncode == 0
    assert status.stdout.endswith("The unit is installed and enabled, active.\n")
    booted.run("systemctl", "stop", "lanloom-nm-reload.path")
    assert booted.lanloom("host", "status").returncode == 1
    assert booted.lanloom("host", "install").stdout == "started lanloom-nm-reload.path\n"
    gone = booted.lanloom("host", "uninstall")
    assert gone.returncode == 0, gone.stderr
    assert booted.lanloom("host", "status").returncode == 1
    assert not any(Path(file.path).exists() for file in host_files())
    known = booted.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "lanloom-*").stdout
    assert "lanloom-nm-reload.path" not in known
