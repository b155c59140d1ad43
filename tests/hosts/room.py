"""In a guest of ``vm.sh``: what a sandbox is on this host, one fact a line. room.py LABEL [strict] [cpu] [hazard]"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dayfly import DayflyError, Limits, Policy, Sandbox
from dayfly.boundaries.gvisor.abilities import detect
from dayfly.limits import MIB

LABEL, WANTED = sys.argv[1], set(sys.argv[2:])
STRICT = "strict" in WANTED
ROOT = Path("/sys/fs/cgroup")
CAPS = ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max", "memory.peak", "pids.current")


def say(key: str, value: object) -> None:
    print(f"[{LABEL}] {key}: {value}", flush=True)


def groups() -> list[Path]:
    return sorted(path for path in ROOT.rglob("dayfly-*") if path.is_dir())


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else "GONE"


def room(**limits: float) -> Sandbox:
    return Sandbox(Policy(strict=STRICT, image="python", limits=Limits.model_validate({"memory": 256 * MIB, **limits})))


def runs() -> None:
    with room() as sandbox:
        for limit in sandbox.limits:
            say("limit", f"{limit.name}={limit.value:g} {limit.enforcement.value}: {limit.how}")
        for group in groups():
            say(str(group), {name: read(group / "cell" / name) for name in CAPS})
        for code in ("print(6 * 7)", "import platform; print(platform.release())", "b = bytearray(3 << 30)"):
            began = time.monotonic()
            run = sandbox.run_code(code, timeout=120)
            answer = run.stdout.strip() or (run.error.name if run.error else "")
            say(code, f"{answer!r} after {time.monotonic() - began:.2f} s, end {sandbox.end_reason}")


def cpu() -> None:
    with room(cpus=0.5, run_seconds=120) as sandbox:
        sandbox.run_code("import time")
        before, began = sandbox.usage.cpu_seconds or 0, time.monotonic()
        sandbox.run_code("end = time.monotonic() + 10\nwhile time.monotonic() < end: pass")
        used, passed = (sandbox.usage.cpu_seconds or 0) - before, time.monotonic() - began
        say("cpus=0.5", f"{used:.2f} s of CPU in {passed:.2f} s: {used / passed:.2f}")


def hazard() -> None:
    """systemd takes the CPU controller from its slices when no unit needs it any more. A cell must keep its cap."""
    change_slices("without a cell")
    with room():
        change_slices("with a cell")


def change_slices(when: str) -> None:
    plain = ROOT / "system.slice" / "plain"
    plain.mkdir()
    (plain / "cpu.max").write_text("50000 100000")
    for step in ("systemd-run -q -p CPUWeight=200 --unit=needy sleep 999", "systemctl stop needy",
                 "systemd-run -q --wait true", "systemctl daemon-reload", "systemd-run -q --wait true"):  # fmt: skip
        subprocess.run(step.split(), check=True)
        slices = [read(path / "cgroup.subtree_control") for path in (ROOT, plain.parent)]
        cells = [read(group / "cell" / "cpu.max") for group in groups()]
        say(
            f"{when}, after {step}",
            f"handed on {slices}, a plain cgroup's cpu.max {read(plain / 'cpu.max')}, cells' {cells}",
        )
    plain.rmdir()


def attempt(work: Callable[[], None]) -> None:
    try:
        work()
    except DayflyError as error:
        say(f"{work.__name__} refused", f"{type(error).__name__}: {error.message} | {error.remedy}")
    say(f"{work.__name__}: left", groups())


say("uid and cgroup", (os.getuid(), read(Path("/proc/self/cgroup"))))
say("cells go to", detect().cgroups)
attempt(runs)
if "cpu" in WANTED:
    attempt(cpu)
if "hazard" in WANTED:
    attempt(hazard)
