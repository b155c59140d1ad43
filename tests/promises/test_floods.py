"""Floods are bounded and named in the answer; where it is ordinary excess the sandbox lives on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dayfly import EndReason, Execution, Outcome, Sandbox

MIB = 1 << 20
CAP = MIB // 4
"""Of output, which a core that is shared fills in half of ``FILLING``, in seconds."""
FILLING = 1.0


def works(sandbox: Sandbox) -> None:
    assert sandbox.run_code("6 * 7").text == "42"


def own_memory() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bounded(sandbox: Sandbox, code: str, limit: str, timeout: float = 30) -> Execution:
    done = sandbox.run_code(code, timeout=timeout)
    assert not done.ok
    assert done.limit == limit, done
    return done


def test_one_greedy_allocation_is_a_memory_error(survivor: Sandbox) -> None:
    done = bounded(survivor, "b = bytearray(3 << 30)", "memory")
    assert done.error is not None
    assert done.error.name == "MemoryError"
    works(survivor)


def test_a_growing_list_is_a_memory_error_and_the_sandbox_lives_on(survivor: Sandbox) -> None:
    done = bounded(survivor, "hoard = []\nwhile True: hoard.append(bytearray(8 << 20))", "memory")
    assert done.error is not None
    assert done.error.name == "MemoryError"
    survivor.run_code("hoard = None")
    works(survivor)


def test_many_greedy_processes_are_bounded_and_the_memory_is_named(sandbox: Sandbox) -> None:
    code = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        b = bytearray(400 << 20)\n        time.sleep(10); os._exit(0)\ntime.sleep(5)"
    done = sandbox.run_code(code)
    assert done.limit == "memory", done
    assert (sandbox.usage.memory_peak or 0) < 1300 * MIB
    assert done.end_reason in (None, EndReason.MEMORY_LIMIT)
    if done.end_reason is None:
        works(sandbox)


def test_a_fork_bomb_gets_eagain_and_the_sandbox_lives_on() -> None:
    with Sandbox({"limits": {"processes": 24}}) as sandbox:
        code = "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60); os._exit(0)"
        done = bounded(sandbox, code, "processes")
        assert done.error is not None
        assert done.error.name == "BlockingIOError"
        works(sandbox)


def test_a_thread_flood_is_an_error_and_the_sandbox_lives_on(sandbox: Sandbox) -> None:
    code = "import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"
    done = sandbox.run_code(code)
    assert done.error is not None
    assert done.limit in ("processes", "memory")
    works(sandbox)


def test_a_fork_bomb_that_never_gives_up_is_ended_with_its_run() -> None:
    with Sandbox({"limits": {"processes": 48}}) as sandbox:
        code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        done = sandbox.run_code(code, timeout=1)
        assert done.outcome in (Outcome.TIMEOUT, Outcome.SANDBOX_ENDED)
        assert done.duration < 1 + 5 + 1
        if done.end_reason is None:
            works(sandbox)


def test_a_descriptor_flood_is_an_error(survivor: Sandbox) -> None:
    bounded(survivor, "import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))", "open_files")
    survivor.run_code("for fd in fds: os.close(fd)")
    works(survivor)


def test_one_file_as_large_as_the_disk_is_an_error() -> None:
    with Sandbox({"limits": {"disk": "64MiB"}}) as sandbox:
        code = "with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20)); f.flush()"
        done = sandbox.run_code(code)
        assert done.limit == "disk", done
        if done.end_reason is None:
            assert done.outcome is Outcome.ERROR
            works(sandbox)
        else:
            assert done.end_reason is EndReason.DISK_LIMIT


def test_many_files_larger_than_the_disk_are_bounded_and_named() -> None:
    with Sandbox({"limits": {"disk": "64MiB"}}) as sandbox:
        code = "n = 0\nwhile True:\n    open(f'part{n}', 'wb').write(bytes(4 << 20)); n += 1"
        done = sandbox.run_code(code)
        assert done.limit == "disk", done
        assert done.end_reason in (None, EndReason.DISK_LIMIT)


def test_a_shm_flood_is_enospc_and_the_sandbox_lives_on(sandbox: Sandbox) -> None:
    done = bounded(sandbox, "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()", "shm")
    assert done.error is not None
    assert done.error.name == "OSError"
    works(sandbox)


def test_an_inode_flood_is_bounded_by_memory() -> None:
    with Sandbox({"limits": {"memory": "128MiB", "processes": 16}}) as sandbox:  # soon full, at 2 KiB a file
        code = "import os\nn = 0\nwhile True:\n    os.mknod(f'/tmp/{n}'); n += 1"
        done = sandbox.run_code(code, timeout=60)
        assert not done.ok
        assert done.limit in ("memory", "disk", "run_seconds")
        used = sandbox.usage
        assert used.memory is None or used.memory < 600 * MIB


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("lines", "while True: print('x' * 100)"),
        ("one line", "import sys\nwhile True: sys.stdout.write('x' * 65536)"),
        ("stderr", "import sys\nwhile True: sys.stderr.write('x' * 65536)"),
        ("the descriptor itself", "import os\nwhile True: os.write(1, bytes(65536))"),
        ("results", "from IPython.display import display\nwhile True: display('x' * 65536)"),
        ("bytes one by one", "import os\nwhile True: os.write(1, b'x')"),
    ],
)
def test_output_is_cut_at_its_cap_and_costs_the_host_no_memory(what: str, code: str, shared: Sandbox) -> None:
    before = own_memory()
    done = shared.run_code(code, timeout=FILLING, output=CAP)
    assert own_memory() - before < 50 * MIB
    assert done.outcome is Outcome.TIMEOUT
    delivered = len(done.stdout) + len(done.stderr) + sum(len(result.text or "") for result in done.results)
    assert delivered <= CAP
    if what != "bytes one by one":
        assert done.dropped > 0
        assert delivered > 0.7 * CAP, what
    assert shared.run_code("6 * 7").text == "42"


def test_without_a_word_the_cap_is_that_of_the_policy(shared: Sandbox) -> None:
    done = shared.run_code("import os\nfor _ in range(80): os.write(1, b'x' * 65536)")
    assert (done.outcome, len(done.stdout), done.dropped) == (Outcome.OK, 4 * MIB, MIB)


def test_a_terabyte_of_reserved_memory_is_refused_or_free(sandbox: Sandbox) -> None:
    code = "import mmap\nm = []\ntry:\n    while len(m) < 64: m.append(mmap.mmap(-1, 1 << 40))\nexcept (OSError, MemoryError): pass\nlen(m)"
    sandbox.run_code(code)
    assert (sandbox.usage.memory or 0) < 512 * MIB
    works(sandbox)


def test_spinning_on_more_cpus_than_given_uses_no_more_than_given(sandbox: Sandbox) -> None:
    before = sandbox.usage.cpu_seconds
    code = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        end = time.time() + 1.2\n        while time.time() < end: pass\n        os._exit(0)\nfor _ in range(4): os.wait()"
    done = sandbox.run_code(code)
    assert done.ok, done
    after = sandbox.usage.cpu_seconds
    assert before is not None
    assert after is not None
    assert (after - before) / done.duration <= 1.15
