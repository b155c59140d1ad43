"""What must work: the wall is no use around a room in which nothing can be done."""

from __future__ import annotations

import json

import pytest

from dayfly import Outcome, Sandbox


def test_python_subprocesses_threads_and_files(shared: Sandbox) -> None:
    done = shared.run_code("""
import os, subprocess, sys, tempfile, threading
out = subprocess.run([sys.executable, '-c', 'print(6*7)'], capture_output=True, text=True).stdout.strip()
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, 'x'), 'w').write('h\\u00e9llo'); text = open(os.path.join(d, 'x')).read()
seen = []; t = threading.Thread(target=lambda: seen.append(1)); t.start(); t.join()
(out, text, seen)
""")
    assert done.text == "('42', 'héllo', [1])"


def test_a_server_and_a_client_on_the_loopback(shared: Sandbox) -> None:
    code = "import socket\ns = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname(), 3); a, _ = s.accept()\nc.sendall(b'ping'); a.recv(4)"
    assert shared.run_code(code).text == "b'ping'"


def test_entropy_certificates_time_and_locale(shared: Sandbox) -> None:
    code = "import os, secrets, ssl, time, uuid, zoneinfo, locale\nlen({os.urandom(8) for _ in range(64)}), uuid.uuid4() != uuid.uuid4(), len(ssl.create_default_context().get_ca_certs()) > 10, time.time() > 1.7e9"
    assert shared.run_code(code).text == "(64, True, True, True)"


def test_most_of_the_limits_can_be_used(sandbox: Sandbox) -> None:
    code = """
import os, subprocess, threading, time
b = bytearray(800 << 20); b[::4096] = b'\\1' * len(b[::4096])
del b
open('big', 'wb').write(bytes(64 << 20))
kids = [subprocess.Popen(['sleep', '100']) for _ in range(50)]
assert [kid.poll() for kid in kids] == [None] * 50
for kid in kids: kid.kill()
for kid in kids: kid.wait()
threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(100)]
for t in threads: t.start()
for t in threads: t.join()
fds = [os.open('/dev/null', 0) for _ in range(256)]
'fine'
"""
    assert sandbox.run_code(code).text == "'fine'"


def test_multiprocessing_by_fork_and_by_spawn(shared: Sandbox) -> None:
    shared.files.write("work.py", "def double(x):\n    import numpy\n    return int(numpy.int64(x) * 2)\n")
    for method in ("fork", "spawn"):
        code = f"import multiprocessing, sys\nsys.path.insert(0, '')\nfrom work import double\nwith multiprocessing.get_context('{method}').Pool(2) as pool: print(pool.map(double, [1, 2, 3]))"
        assert shared.run_code(code).stdout == "[2, 4, 6]\n", method


def test_state_persists_and_contexts_are_apart(shared: Sandbox) -> None:
    shared.run_code("x = 1")
    shared.run_code("x = 2", context="other")
    assert shared.run_code("x").text == "1"
    assert shared.run_code("x", context="other").text == "2"


def test_numpy_pandas_and_a_chart_without_show(shared: Sandbox) -> None:
    done = shared.run_code("""
import numpy as np, pandas as pd, matplotlib.pyplot as plt
frame = pd.DataFrame({'x': np.arange(5), 'y': np.arange(5) ** 2})
plt.plot(frame.x, frame.y)
frame
""")
    assert done.ok, done.error
    charts = [result.png for result in done.results if result.png]
    assert charts
    assert charts[0].startswith(b"\x89PNG")
    table = next(result for result in done.results if result.is_main)
    assert "<table" in (table.html or "")


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exit_codes_are_exact(code: int, shared: Sandbox) -> None:
    assert shared.commands.run(["/bin/sh", "-c", f"exit {code}"]).exit_code == code


def test_a_signal_is_told_from_an_exit_code(shared: Sandbox) -> None:
    done = shared.commands.run(["/bin/sh", "-c", "kill -SEGV $$"])
    assert (done.exit_code, done.signal, done.outcome) == (None, 11, Outcome.ERROR)


def test_bytes_and_unicode_survive_both_ways(shared: Sandbox) -> None:
    content = bytes(range(256)) * 1000
    shared.files.write("bytes", content)
    assert shared.files.read("bytes") == content
    assert shared.run_code("print('\\u2603\\U0001f600', end='')").stdout == "\u2603\U0001f600"
    name = b"caf\xe9-\xff.txt"
    shared.files.write(name, b"x")
    listed = [info.name for info in shared.files.list() if info.name.startswith("caf")]
    assert [json.loads(json.dumps(found)).encode("utf-8", "surrogateescape") for found in listed] == [name]


def test_every_limit_is_reported_with_how_it_is_kept(shared: Sandbox) -> None:
    done = shared.run_code("1")
    reported = {limit.name: limit for limit in done.limits}
    assert set(reported) == {"cpus", "memory", "processes", "disk", "shm", "open_files", "output", "run_seconds",
                             "run_cpu_seconds", "lifetime_seconds", "idle_seconds", "cpu_seconds"}  # fmt: skip
    assert all(limit.enforcement in ("enforced", "watched") for limit in done.limits)


def test_fork_in_the_library_does_not_end_the_parents_sandbox(shared: Sandbox) -> None:
    import os

    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert shared.run_code("6 * 7").text == "42"


def test_every_byte_that_is_printed_arrives_before_the_answer() -> None:
    """Many times, since what is printed and the answer come over pipes of their own."""
    lines = "".join(f"{number:015d}\n" for number in range(3 << 16))  # 3 MiB: more than any buffer on the way
    with Sandbox({"limits": {"output": "64MiB", "cpus": 2}}) as sandbox:
        for _ in range(4):
            done = sandbox.run_code("for number in range(3 << 16): print(f'{number:015d}')")
            assert (done.ok, done.dropped, len(done.stdout)) == (True, 0, len(lines))
            assert done.stdout == lines
            assert sandbox.run_code("import os; os.write(1, b'x' * 300_000)").stdout == "x" * 300_000
