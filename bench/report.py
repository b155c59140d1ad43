"""From samples to a JSON file and a table for people."""

from __future__ import annotations

import json
import os
import platform
import statistics
from pathlib import Path

from dayfly.runtime import find_runsc

ALONE = "alone: p99 of a trivial execution, ms"

RATIOS = [
    # (what, against what, target in words)
    ("dayfly, plain kernel: cold start, ms", "bare runsc, python, 1 CPU: cold start, ms", "<= 1.5"),
    ("dayfly, plain kernel, 2 CPUs: cold start, ms", "bare runsc, python: cold start, ms", "<= 1.5"),
    ("dayfly, plain kernel: cold start, ms", "bare runsc, python: cold start, ms", "<= 1.5"),
    ("dayfly, plain kernel: cold start, ms", "bare runsc, two processes, 1 CPU: cold start, ms", "floor"),
    ("dayfly, plain kernel, 2 CPUs: cold start, ms", "bare runsc, two processes: cold start, ms", "floor"),
    ("dayfly, IPython kernel: cold start, ms", "bare runsc, IPython, 1 CPU: cold start, ms", "<= 1.3"),
    ("dayfly, IPython kernel, 2 CPUs: cold start, ms", "bare runsc, IPython: cold start, ms", "<= 1.3"),
    ("dayfly, IPython kernel: cold start, ms", "bare runsc, IPython: cold start, ms", "<= 1.3"),
    ("dayfly, plain kernel: trivial execution, ms", "ipykernel, no sandbox: trivial execution, ms", "< 1"),
    ("dayfly, IPython kernel: trivial execution, ms", "ipykernel, no sandbox: trivial execution, ms", "< 1"),
    ("dayfly, data: next spare, from its beginning, ms", "dayfly, data: cold start and import, ms", "<= 0.25"),
    ("dayfly, data: spares a second", "bare restores of the same snapshot a second", ">= 0.8"),
    ("dayfly over HTTP, data: trivial execution, ms", "dayfly, IPython kernel: trivial execution, ms", "<= 3 ms"),
    ("dayfly over HTTP, data: trivial execution, ms", "a bare socket over HTTP, data: trivial execution, ms", "floor"),
    *(
        (f"{who}, beside {what}: p99 of a trivial execution, ms", f"{who}, {ALONE}", wanted)
        for what in ("8 floods", "8 hogs", "8 floods and 8 hogs")
        for who, wanted in (("a neighbour", "<= 5"), ("a bare neighbour", "floor"))
    ),
    ("a request to this machine, through a sandbox's network, ms", "a request to this machine, directly, ms", "+ 2 ms"),
    (
        "a request to this machine, through a sandbox's network, ms",
        "floor: a request inside a sandbox, through a relay there, ms",
        "floor",
    ),
    (
        "a request on a kept connection to this machine, through a sandbox's network, ms",
        "a request on a kept connection to this machine, directly, ms",
        "+ 2 ms",
    ),
    (
        "a request on a kept connection to this machine, through a sandbox's network, ms",
        "floor: a request on a kept connection inside a sandbox, through a relay there, ms",
        "floor",
    ),
    (
        "1 GiB from this machine, through a sandbox's network, MB/s",
        "1 GiB from this machine, directly, MB/s",
        ">= 200 MB/s",
    ),
    (
        "1 GiB over TLS that the gateway looks into, through a sandbox's network, MB/s",
        "1 GiB over TLS that the gateway looks into, directly, MB/s",
        ">= 80 MB/s",
    ),
    ("dayfly, plain kernel: idle memory, MB", "bare runsc, python: idle memory, MB", "+ 12 MB"),
    ("dayfly, IPython kernel: idle memory, MB", "bare runsc, IPython: idle memory, MB", "+ 12 MB"),
]


NOTES = """
## Reading it

- "Bare runsc" is `runsc run` of the same image's Python with a loop over its standard input: no caps, no agent, no second user, no kernel to keep state
  in. dayfly's default is one CPU, so it is compared with a bare runsc that is bound to one, and with two CPUs to one that has two.
- "Two processes" is the least of what an agent is: the user's code runs in a process of its own, apart from the one that the host talks
  to, and JSON goes between them. It is the floor of a design in which code cannot lie about itself: its fork alone takes 15 to 30 ms here.
- A cold start is as short as that of a bare runsc, though it does more, because nothing of a sandbox takes the CPU by waking up (SCHED_BATCH). Without that
  gVisor spins: to map a page, the sentry has a process of the guest's make the system call, and that one asks the kernel to wake the sentry again and again
  until it sleeps. A sentry that was pushed aside by whom it woke does not come to sleep, and 3 ms are gone, at every other page (a trace of the build
  of 2024; 252 ms of a cold start before, 182 since, IPython 464 and 339). What is beyond bare: some 9 ms until runsc starts (a skeleton, a mount namespace and
  two mounts), the agent's modules, and the fork that becomes the kernel.
- A trivial execution crosses four processes: the caller's, dayfly's loop, the agent, the kernel, and back. Inside gVisor on this machine a system call
  takes 6 to 16 us (50 to 90 when others want both cores), and waking a process that sleeps some 100 us. In a sandbox's first second reading the clock is a system
  call too; later it takes 0.05 us. The same agent and kernel without gVisor, on
  a loop without the thread in between, take 0.65 ms: 0.2 ms each of CPU for host, agent and kernel. The rest is gVisor's and that thread's.
- Counted by gVisor's own trace, such an execution in a young plain sandbox is 13.7 system calls inside. The agent's are two each of epoll_wait, read and
  write, one look at both of the kernel's pipes, one or two at the clock, and what is left of timers and of the memory's guard, once in a while; the kernel's are a
  read, a write, and two that look after its descriptors when the answer is out. The least for four processes are six, and four looks that somebody's promise
  needs: that what was printed comes before the result, and CPU time. On the host it is four waits of the loop, of which two sleep, 680 calls of Python
  functions there and 24 on the caller's side, and two wakes of a thread.
- An idle gVisor uses 2 to 4 % of a core by itself. A sandbox that nobody has used yet is frozen 3 s after its opening, and one in
  which nothing goes on 0.1 s after its last call.
- "A bare neighbour" is the bare runsc of two processes beside the same others: what the machine itself leaves to whoever wants a CPU for a moment.
- A neighbour's callers run on the same machine, as those of a server need not; they only take in what comes. Whoever uses much CPU steps behind
  (`cpu.idle`); before that its 99th percentile was 66 ms beside the floods, 105 beside the hogs and 263 beside all of them, and 10 alone. What comes in bulk is dealt
  with in pieces of 64 KiB, one stream at a time. Tried without gain: ten times the CPU weight for its cgroup, a higher priority for the server.
- Wanted of warm claims to the first result: 5 ms (the median), 15 ms over HTTP, 50 ms for nine of ten that come at once. The next spare is begun 0.1 s after a
  claim at the earliest, so that it does not slow down who has just claimed one; its figure begins there. Of claims that come at once, as many as there are CPUs
  are dealt with at a time.
- Through a sandbox's network: each request resolves a name, connects, and is answered, by way of the agent, the host's process and the gateway, three processes
  in Python. Clients that keep their connection pay for the first two once. A sandbox asks the resolver inside for a name once: from then on it stands in its
  hosts file. The floor is the same client in a sandbox without network, with a resolver and a server of a few lines beside it, or a relay between them:
  nothing of it leaves gVisor. A request with a connection of its own takes some 5 ms of CPU in all, of which gVisor has three, so on two cores it shows what
  else the machine does.
"""


def machine() -> dict[str, str]:
    runsc = find_runsc()
    return {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": str(os.cpu_count()),
        "runsc": runsc.version,
        "user": "root" if os.geteuid() == 0 else "ordinary user",
    }


def write(samples: dict[str, list[float]], date: str, results: Path, table: Path) -> str:
    """Write both files; returns the table."""
    results.mkdir(parents=True, exist_ok=True)
    document = {"date": date, "machine": machine(), "samples": samples}
    (results / f"{date}.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    text = "\n".join(_lines(samples, date))
    table.write_text(text + "\n")
    return text


def _lines(samples: dict[str, list[float]], date: str) -> list[str]:
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = ["# Benchmarks", "", f"Made by `make bench` on {date}: {facts}.", "One run; contenders took turns.", ""]
    lines += ["| figure | median | min | max | n |", "|---|---:|---:|---:|---:|"]
    for name, values in samples.items():
        row = (statistics.median(values), min(values), max(values))
        lines.append(f"| {name} | " + " | ".join(f"{value:.3g}" for value in row) + f" | {len(values)} |")
    lines += ["", "| compared | with | ratio of medians | difference | wanted |", "|---|---|---:|---:|---|"]
    for what, against, wanted in RATIOS:
        if what in samples and against in samples:
            one, other = statistics.median(samples[what]), statistics.median(samples[against])
            lines.append(f"| {what} | {against} | {one / other:.2f} | {one - other:+.3g} | {wanted} |")
    return [*lines, NOTES.rstrip("\n")]
