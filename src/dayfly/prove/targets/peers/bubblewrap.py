"""bubblewrap: namespaces by an ordinary user, on the host's kernel."""

from __future__ import annotations

from pathlib import Path

from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target

__all__ = ["WALLS", "target"]

WALLS = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv",
    "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
    "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
    "--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/tmp", "--chdir", "/tmp",
)  # fmt: skip
"""As in its demonstration, without the network that that one shares, and with what its manual has against escapes: a new session, no variables, no
more user namespaces. It ships no seccomp filter."""


def target(means: Means) -> Target:
    program = means.program("bwrap", "bubblewrap")
    return Target(
        name="bwrap",
        command=[program, *WALLS, "/usr/bin/python3", "-"],
        version=[program, "--version"],
        configured=f"bwrap {' '.join(WALLS)}",
        source="bubblewrap's demos/bubblewrap-shell.sh and bwrap(1)",
        needs=[str(Path(program).resolve().parent)],
    )
