"""The command lines of what carries a lab."""

from pathlib import Path

from lanloom_lab.launch import Directories, memory_directory, uml_command
from lanloom_lab.uml import UmlKernel

KERNEL = UmlKernel(Path("/cache/linux.uml"), Path("/cache/modules"), "6.1.1", "6.1um1", "bookworm")
DIRECTORIES = Directories(
    Path("/tree"), Path("/src"), Path("/site"), Path("/guests"), Path("/state"), Path("/state/scratch")
)


def test_the_kernel_sees_the_labs_directories() -> None:
    """The kernel boots from the tree, read-only, and gets by its options where the project and the lab's state are."""
    words = uml_command(KERNEL, DIRECTORIES, nodes=3)
    kernel = words[words.index("/cache/linux.uml") :]
    assert {"rootflags=/tree", "ro", "LAB_STATE=/state", "LAB_SRC=/src", "LAB_MODULES=/cache/modules"} <= set(
        kernel
    )


def test_the_kernel_is_caged() -> None:
    """The kernel dies with the process that started it, and so do its processes."""
    assert {"unshare", "--pid", "--fork", "--kill-child=KILL"} <= set(
        uml_command(KERNEL, DIRECTORIES, nodes=3)
    )


def test_memory_grows_with_the_nodes() -> None:
    """A lab of many nodes gets more memory than the least."""
    assert "mem=3072M" in uml_command(KERNEL, DIRECTORIES, nodes=3)
    assert "mem=5000M" in uml_command(KERNEL, DIRECTORIES, nodes=50)


def test_memory_on_disk_where_shared_memory_is_missing(tmp_path: Path) -> None:
    """Without shared memory, the kernel's memory is mapped from the lab's own directory."""
    assert memory_directory(tmp_path, tmp_path / "no-such") == tmp_path
