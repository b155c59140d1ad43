"""What is measured, each behind the same four moves: start to first result, one more, (dayfly's own) transfers, stop."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dayfly import Policy, Sandbox
from dayfly.images import Store
from dayfly.runtime import Feature, find_runsc
from dayfly.spec import Image

PLAIN_LOOP = """
import sys
for line in sys.stdin:
    sys.stdout.write(repr(eval(line)) + chr(10)); sys.stdout.flush()
"""

TWO_LOOP = """
import json, os, select, socket, sys
ours, theirs = socket.socketpair()
if not os.fork():
    ours.close()
    while line := theirs.recv(65536):
        theirs.send(json.dumps({"value": repr(eval(json.loads(line)["code"]))}).encode())
    os._exit(0)
theirs.close()
for line in sys.stdin:
    ours.send(json.dumps({"code": line}).encode())
    sys.stdout.write(json.loads(ours.recv(65536))["value"] + chr(10)); sys.stdout.flush()
"""
"""The least of what an agent is: the user's code is in another process than what the host talks to."""

IPYTHON_LOOP = """
import sys, io
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
out = sys.stdout
for line in sys.stdin:
    sys.stdout = io.StringIO()
    result = shell.run_cell(line)
    sys.stdout = out
    out.write(repr(result.result) + chr(10)); out.flush()
"""


class Contender(Protocol):
    name: str

    def start(self) -> None:
        """Start, run ``1+1`` and have its result."""

    def again(self) -> None:
        """Run ``1+1`` once more."""

    def stop(self) -> None: ...


class Dayfly:
    def __init__(self, name: str, image: str, **limits: object) -> None:
        self.name = name
        self._policy = Policy.model_validate({"image": image, "limits": limits})
        self.sandbox: Sandbox

    def open(self) -> None:
        self.sandbox = Sandbox(self._policy)

    def start(self) -> None:
        self.open()
        self.again()

    def again(self) -> None:
        done = self.sandbox.run_code("1+1")
        assert done.text == "2", done

    def stop(self) -> None:
        self.sandbox.close()


class BareRunsc:
    """``runsc run`` of the same image's Python with a loop over its stdio: the floor.

    ``one_cpu`` binds it to one, as dayfly does with its default of one CPU: starting gVisor takes longer then.
    """

    def __init__(self, name: str, image: Image, program: str, *, one_cpu: bool) -> None:
        self.name = name
        self._one_cpu = one_cpu
        self._image = image
        self._program = program
        self._process: subprocess.Popen[bytes]
        self._directory: Path

    def start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="bare-"))
        (self._directory / "config.json").write_text(json.dumps(self._spec()))
        runsc = find_runsc()
        new = ["--gofer-network-namespace=new"] if runsc.has(Feature.GOFER_NETWORK_NAMESPACE) else []  # else it is left
        command = [str(runsc.path), f"--root={self._directory}/root", "--network=none", "--platform=systrap",
                   "--ignore-cgroups", *new, "run", f"--bundle={self._directory}", self._directory.name]  # fmt: skip
        if self._one_cpu:
            command = ["taskset", "--cpu-list", str(random.choice(sorted(os.sched_getaffinity(0)))), *command]
        if os.geteuid():
            command = ["unshare", "-Ur", "--mount", "--", *command]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.again()

    def _spec(self) -> dict[str, object]:
        environment = [f"{name}={value}" for name, value in self._image.environment.items()]
        mounts: list[dict[str, object]] = [{"destination": "/proc", "type": "proc", "source": "proc"},
                                           {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]  # fmt: skip
        mounts += [{"destination": layer.target, "type": "bind", "source": str(layer.source), "options": ["ro", "rbind"]}
                   for layer in self._image.layers]  # fmt: skip
        return {
            "ociVersion": "1.0.0",
            "process": {"args": [self._image.python, "-c", self._program], "cwd": "/", "user": {"uid": 0, "gid": 0},
                        "env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", *environment]},
            "root": {"path": str(self._image.rootfs), "readonly": True},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]},
        }  # fmt: skip

    def again(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"1+1\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"2\n"

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout
        self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class GvisorWheel:
    """The gvisor project's own Python package: a new Python for every call."""

    name = "gvisor wheel"

    def start(self) -> None:
        import gvisor

        os.environ["RUNSC_PATH"] = str(find_runsc().path)
        self._sandbox = gvisor.Sandbox()
        self.again()

    def again(self) -> None:
        done = self._sandbox.exec("python3", "-c", "print(1+1)")
        assert "2" in str(done), done

    def stop(self) -> None:
        self._sandbox.close()


class Ipykernel:
    """A plain kernel on the host, no wall at all, spoken to as notebooks do."""

    name = "ipykernel, no sandbox"

    def start(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self._manager, self._client = start_new_kernel()
        self.again()

    def again(self) -> None:
        seen: list[str] = []

        def look(message: dict[str, object]) -> None:
            content = message["content"]
            if message["msg_type"] == "execute_result":
                seen.append(content["data"]["text/plain"])  # type: ignore[index]

        self._client.execute_interactive("1+1", output_hook=look, timeout=30)
        assert seen == ["2"], seen

    def stop(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def seconds(move: Callable[[], object]) -> float:
    begun = time.perf_counter()
    move()
    return time.perf_counter() - begun


def contenders(plain_image: str, rich_image: str) -> list[Contender]:
    """All that this machine has; the wheel and the kernel only if they are installed."""
    store = Store()
    plain, rich = store.resolve(plain_image), store.resolve(rich_image)
    found: list[Contender] = [
        BareRunsc("bare runsc, python", plain, PLAIN_LOOP, one_cpu=False),
        BareRunsc("bare runsc, python, 1 CPU", plain, PLAIN_LOOP, one_cpu=True),
        BareRunsc("bare runsc, two processes", plain, TWO_LOOP, one_cpu=False),
        BareRunsc("bare runsc, two processes, 1 CPU", plain, TWO_LOOP, one_cpu=True),
        Dayfly("dayfly, plain kernel", plain_image),
        Dayfly("dayfly, plain kernel, 2 CPUs", plain_image, cpus=2),
        BareRunsc("bare runsc, IPython", rich, IPYTHON_LOOP, one_cpu=False),
        BareRunsc("bare runsc, IPython, 1 CPU", rich, IPYTHON_LOOP, one_cpu=True),
        Dayfly("dayfly, IPython kernel", rich_image),
        Dayfly("dayfly, IPython kernel, 2 CPUs", rich_image, cpus=2),
    ]
    for kind, module in ((GvisorWheel, "gvisor"), (Ipykernel, "ipykernel")):
        try:
            __import__(module)
        except ImportError:
            continue
        found.append(kind())
    return found
