"""gVisor with one wall taken away: where an attack must succeed, so that its failure in a sandbox proves something.

Still gVisor: nothing here runs an attack against the host's own kernel.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dayfly.boundaries.gvisor.command import LAUNCHER
from dayfly.boundaries.gvisor.skeleton import mount_point
from dayfly.runtime import find_runsc
from dayfly.spec import Image
from tests.machine import image as built

CAPABILITIES = ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_DAC_OVERRIDE", "CAP_SETUID", "CAP_SETGID",
                "CAP_MKNOD", "CAP_CHOWN", "CAP_SYS_RESOURCE"]  # fmt: skip


@dataclass(frozen=True)
class Missing:
    """Which wall is missing. ``binds`` are host directories that appear inside at the same path."""

    network: str = "none"
    binds: Sequence[Path] = ()
    root: bool = False
    flags: Sequence[str] = ()
    shell: str = 'exec python3 "$0"'
    env: Mapping[str, str] = field(default_factory=dict)


def run(attack: Path, missing: Missing, env: Mapping[str, str]) -> str:
    """stdout of the attack in a bare ``runsc run``."""
    with tempfile.TemporaryDirectory(prefix="unwalled-") as name:
        bundle = Path(name)
        image = built("data")
        binds = _binds(image, attack, missing)
        root, skeleton = bundle / "rootfs", bundle / "skeleton"
        root.mkdir()
        _fill(skeleton, image.rootfs, binds)
        spec = _spec(image, root, attack, missing, binds, env)
        (bundle / "config.json").write_text(json.dumps(spec))
        command = [
            str(find_runsc().path), f"--root={bundle}/root", f"--network={missing.network}", "--platform=systrap",
            "--ignore-cgroups", *missing.flags, "run", f"--bundle={bundle}", f"unwalled-{secrets.token_hex(8)}",
        ]  # fmt: skip
        # Over the image and not on it: runsc makes missing mount points on the host, in what it is given as its root.
        # And in a mount namespace, since current builds leave a mount beside their state.
        mounts = bundle / "mounts"
        mounts.write_text(f"overlay {root} overlay ro,lowerdir={skeleton}:{image.rootfs} 0 0\n")
        launch = ["/bin/sh", str(LAUNCHER), "--mount", str(mounts), "--"]
        own = ["--user", "--map-root-user"] if os.geteuid() else []
        command = ["unshare", *own, "--mount", "--", *launch, *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout, f"the control did not run: {done.stderr[-2000:]}"
        return done.stdout


def _binds(image: Image, attack: Path, missing: Missing) -> dict[str, Path]:
    """What of the host appears inside, by where."""
    layers = {layer.target: layer.source for layer in image.layers}
    return {"/attacks": attack.parent, **{str(path): path for path in missing.binds}, **layers}


def _fill(skeleton: Path, image: Path, binds: Mapping[str, Path]) -> None:
    skeleton.mkdir()
    skeleton.chmod(0o755)  # whatever the umask: it becomes the root directory inside
    for target, source in binds.items():
        mount_point(skeleton, image, target, source)


def _spec(
    image: Image, root: Path, attack: Path, missing: Missing, binds: Mapping[str, Path], env: Mapping[str, str]
) -> dict[str, Any]:
    variables = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp", **image.environment, **env, **missing.env}
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]  # fmt: skip
    mounts += [{"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "rw"]}
               for target, source in binds.items()]  # fmt: skip
    capabilities = CAPABILITIES if missing.root else []
    user = 0 if missing.root else 1000
    return {
        "ociVersion": "1.0.0",
        "hostname": "unwalled",
        "process": {
            "args": ["/bin/sh", "-c", missing.shell, f"/attacks/{attack.name}"],
            "cwd": "/tmp",
            "env": [f"{key}={value}" for key, value in variables.items()],
            "user": {"uid": user, "gid": user},
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), capabilities),
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]
                  + ([] if missing.network == "host" else [{"type": "network"}])},
    }  # fmt: skip
