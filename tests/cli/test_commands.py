"""The command line over real gVisor."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.leftovers import Dayfly, leftovers

pytestmark = pytest.mark.gvisor

IMAGE = ("--image", "python")


def test_a_run_shows_what_the_code_prints_and_its_last_value(dayfly: Dayfly) -> None:
    done = dayfly("run", *IMAGE, "-c", "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert (done.returncode, done.stdout) == (0, "out\n42\n")
    assert done.stderr.startswith("err\n")


def test_what_the_code_prints_cannot_command_the_terminal(dayfly: Dayfly) -> None:
    code = "import sys; t = 'a\\x1b]0;owned\\x07\\u202eb\\U000e0041'; print(t); print(t, file=sys.stderr); raise ValueError(t)"
    done = dayfly("run", *IMAGE, "-c", code)
    for stream in (done.stdout, done.stderr):
        assert "a\\x1b]0;owned\\x07\\u202eb\\U000e0041" in stream
        assert not set("\x1b\x07\u202e\U000e0041") & set(stream)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("-c", "1 / 0"), 1, "ZeroDivisionError"),
        (("-c", "import os; os._exit(3)"), 1, "the interpreter ended; exit code 3"),
        (("--language", "bash", "-c", "exit 3"), 1, "exit code 3"),
        (("--timeout", "0.5", "-c", "while True: pass"), 3, "stopped: the time was up"),
        (("--language", "cobol", "-c", "1"), 2, "dayfly: "),
        (("--image", "no-such-image", "-c", "1"), 2, "dayfly: no image is called 'no-such-image'"),
        (("--policy", "missing.toml", "-c", "1"), 2, "dayfly: cannot read the policy missing.toml"),
        (("--memory", "lots", "-c", "1"), 2, "dayfly: --memory"),
        (("missing.py",), 2, "dayfly: cannot read missing.py: No such file or directory"),
        (("--in", "missing", "-c", "1"), 2, "dayfly: --in missing"),
        (("--env", "A", "-c", "1"), 2, "dayfly: not KEY=VALUE"),
        ((), 2, "dayfly: name one file"),
        (("--no-such-option",), 2, "dayfly: no such option: --no-such-option\n"),
        (("--language", "pyton", "-c", "1"), 2, "did you mean python? there is python, bash\n"),
        (("--language", "bash", "-c", "echo; (exit 3)"), 1, "exit code 3\n"),
        (("--language", "bash", "-c", "set -e; false; echo never"), 1, "exit code 1\n"),
        (("--memory", "1MiB", "-c", "1"), 2, "dayfly: --memory must be at least 96 MiB"),
        (("--timeout", "soon", "-c", "1"), 2, "dayfly: invalid value for '--timeout': "),
        ((".",), 2, "dayfly: . is a directory\n  name the file with the code; --in . takes data\n"),
        (("--out", "/dev/null", "-c", "1"), 2, "dayfly: --out /dev/null: is not a directory\n"),
        (("--out", "/dev/null/sub", "-c", "1"), 2, "dayfly: --out /dev/null/sub: Not a directory\n"),
        (("--out", "/proc", "-c", "1"), 2, "dayfly: --out /proc: "),
    ],
)
def test_each_kind_of_failure_has_its_exit_code_and_its_line(
    dayfly: Dayfly, arguments: tuple[str, ...], code: int, line: str
) -> None:
    done = dayfly("run", *(() if "--image" in arguments else IMAGE), *arguments)
    assert done.returncode == code, done.stderr
    assert line in done.stderr
    assert 'Traceback (most recent call last):\n  File "/' not in done.stderr


def test_to_learn_prints_the_rules_that_the_code_needs(dayfly: Dayfly) -> None:
    code = (
        "import urllib.request as u\n"
        "try: u.urlopen('http://web.example.com/').read()\n"
        "except OSError as error: print(error)"
    )
    done = dayfly("run", *IMAGE, "--learn", "-c", code)
    assert (done.returncode, done.stdout) == (0, "HTTP Error 403: Forbidden\n")
    rules = tomllib.loads(done.stderr[done.stderr.index("[[network]]") :])
    assert rules == {"network": [{"host": "web.example.com", "ports": [80], "protocol": "http"}]}
    assert dayfly("run", *IMAGE, "--learn", "--allow", "a.example.com", "-c", "1").returncode == 2


def test_what_was_denied_is_told_at_the_end(dayfly: Dayfly) -> None:
    code = "import socket\nfor _ in range(2):\n  try: socket.getaddrinfo('other.example.com', 443)\n  except OSError: print('no')"
    done = dayfly("run", *IMAGE, "--allow", "api.example.com", "-c", code)
    assert (done.returncode, done.stdout) == (0, "no\nno\n")
    line = "denied: other.example.com: other.example.com is not on this sandbox's list of names (asked 2 times)\n"
    assert done.stderr.endswith(line)
    told = json.loads(dayfly("run", *IMAGE, "--allow", "api.example.com", "--json", "-c", code).stdout)["denied"]
    assert [(one["host"], one["port"], one["code"], one["count"]) for one in told] == [
        ("other.example.com", None, "not_listed", 2)
    ]
    shell = dayfly("shell", *IMAGE, "--allow", "api.example.com", input=code)
    assert shell.stderr.endswith(line)


def test_a_machine_without_runsc_says_what_to_do(dayfly: Dayfly, tmp_path: Path) -> None:
    done = dayfly("run", *IMAGE, "-c", "1", DAYFLY_RUNSC=str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("dayfly: DAYFLY_RUNSC names no file")
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    assert dayfly("run", *IMAGE, "-c", "1", DAYFLY_RUNSC=str(tmp_path / "broken")).returncode == 4


def test_files_go_in_and_what_the_run_made_comes_out(dayfly: Dayfly, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3")
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "x").write_text("deep")
    code = """
import os
os.mkdir("made")
open("made/sum.txt", "w").write(str(sum(map(int, open("numbers.txt").read().split()))))
open("copy", "w").write(open("folder/sub/x").read())
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
open(".hidden", "w").close()
"""
    (tmp_path / "code.py").write_text(code)
    done = dayfly("run", *IMAGE, "code.py", "--in", "numbers.txt", "--in", "folder", "--out", "results")
    assert done.returncode == 0, done.stderr
    results = tmp_path / "results"
    found = {str(path.relative_to(results)): path.read_text() for path in results.rglob("*") if path.is_file()}
    assert found == {"made/sum.txt": "6", "copy": "deep"}
    assert "saved results/made/sum.txt (1 bytes)" in done.stderr


def test_json_is_exact_and_alone_on_stdout(dayfly: Dayfly, tmp_path: Path) -> None:
    code = "open('f', 'w').write('x'); print('a\\x1b[31m\\udcff'.encode('utf-8', 'surrogateescape')); print('\\x1b[31m'); {'k': 1}"
    done = dayfly("run", *IMAGE, "--json", "--out", "out", "-c", code)
    value = json.loads(done.stdout)
    assert value["stdout"].endswith("\x1b[31m\n")
    assert value["outcome"] == "ok"
    assert value["results"][0]["data"]["text/plain"] == "{'k': 1}"
    assert value["files"] == [{"name": "f", "size": 1}]
    assert {limit["name"] for limit in value["limits"]} >= {"memory", "disk"}
    failed = json.loads(dayfly("run", *IMAGE, "--json", "-c", "1/0").stdout)
    assert failed["error"]["name"] == "ZeroDivisionError"


def test_code_comes_from_stdin_and_the_language_from_the_option(dayfly: Dayfly) -> None:
    assert dayfly("run", *IMAGE, "-", input="print('piped')").stdout == "piped\n"
    done = dayfly(
        "run", *IMAGE, "-", "--language", "bash", "--env", "GIVEN=yes", input="echo $GIVEN $SECRET_OF_THE_HOST."
    )
    assert done.stdout == "yes .\n"


def test_a_chart_is_saved_and_javascript_runs_in_the_default_image(dayfly: Dayfly, tmp_path: Path) -> None:
    (tmp_path / "plot.py").write_text("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.gcf()")
    done = dayfly("run", "plot.py", "--out", "out", "--json")
    assert (tmp_path / "out" / "chart-1.png").read_bytes().startswith(b"\x89PNG"), done.stderr
    [png] = [
        result["data"]["image/png"] for result in json.loads(done.stdout)["results"] if "image/png" in result["data"]
    ][:1]
    assert base64.b64decode(png) == (tmp_path / "out" / "chart-1.png").read_bytes()
    (tmp_path / "code.js").write_text("console.log([1, 2].map(x => x * 2).join())")
    assert dayfly("run", "code.js").stdout == "2,4\n"


def test_explain_prints_the_specification_and_runs_nothing(dayfly: Dayfly) -> None:
    value = json.loads(dayfly("run", *IMAGE, "--explain").stdout)
    assert value["boundary"] == "gvisor"
    assert "process" in json.dumps(value)


@pytest.mark.parametrize("script", ["exit 0", "set -e; true", "false; true"])
def test_a_bash_script_that_ends_well_says_nothing(dayfly: Dayfly, script: str) -> None:
    done = dayfly("run", *IMAGE, "--language", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_end_is_told_once(dayfly: Dayfly) -> None:
    done = dayfly("run", *IMAGE, "-c", "import os; os._exit(3)")
    assert done.stderr == "the interpreter ended; exit code 3\n"
    assert (
        dayfly("run", *IMAGE, "-c", "import os; os.kill(os.getpid(), 9)").stderr == "the interpreter ended; signal 9\n"
    )
    done = dayfly("run", *IMAGE, "--language", "bash", "-c", "if true; then")
    assert done.returncode == 1
    assert done.stderr.count("syntax error") == 1


HOARD = """python3 -c 'x = b"1" * 500_000_000'; true"""


def test_a_limit_that_a_child_met_is_told_although_the_code_went_on(dayfly: Dayfly) -> None:
    done = dayfly("run", *IMAGE, "--memory", "128MiB", "--language", "bash", "-c", HOARD)
    assert done.returncode == 3, done.stderr
    assert "\nlimit: memory\n" in done.stderr


def test_more_than_the_disk_limit_is_not_begun(dayfly: Dayfly, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for name in ("a", "b"):
        with (tmp_path / "tree" / name).open("wb") as file:
            file.truncate(10 * 2**20)
    (tmp_path / "policy.toml").write_text('[limits]\ndisk = "16MiB"\n')
    done = dayfly("run", *IMAGE, "--policy", "policy.toml", "--in", "tree", "-c", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "more than the disk limit of 16 MiB\n  raise limits.disk" in done.stderr


def test_a_displayed_table_is_shown_and_a_picture_has_a_hint(dayfly: Dayfly) -> None:
    code = "import pandas as pd; display(pd.DataFrame({'a': [7]})); [display({'image/png': b'x'}, raw=True) for _ in '12']; 1"
    done = dayfly("run", "-c", code)
    assert done.stdout == "   a\n0  7\n1\n"
    assert done.stderr.count("--out DIR saves it") == 1
    assert "--out" not in dayfly("run", "--out", "out", "-c", code).stderr


def test_an_output_that_cannot_be_written_is_one_line(environment: dict[str, str], data: Path) -> None:
    for arguments in (("run", *IMAGE, "-c", "print(1)"), ("run", *IMAGE, "--json", "-c", "1"), ("--help",)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "dayfly", *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                env=environment, timeout=60, check=False,
            )  # fmt: skip
        assert done.returncode == 141
        assert done.stderr == "dayfly: cannot write the output: No space left on device\n  send it elsewhere\n"
    assert leftovers(data) == []


def test_streams_may_be_closed(environment: dict[str, str], data: Path) -> None:
    line = f"{sys.executable} -m dayfly run --image python -c 'print(1); 1/0' >&- 2>&- <&-"
    done = subprocess.run(line, shell=True, env=environment, timeout=60, check=False)
    assert done.returncode == 1
    assert leftovers(data) == []


def test_a_data_directory_that_is_empty_or_none_has_its_remedy(dayfly: Dayfly, tmp_path: Path) -> None:
    done = dayfly("run", "-c", "1", DAYFLY_DATA=str(tmp_path / "empty"))
    assert done.returncode == 2
    assert "nothing is set up in" in done.stderr
    assert done.stderr.endswith("dayfly setup\n")
    (tmp_path / "file").touch()
    for arguments in (("run", "-c", "1"), ("images", "list"), ("setup",)):
        done = dayfly(*arguments, DAYFLY_DATA=str(tmp_path / "file"))
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith(f"dayfly: DAYFLY_DATA {tmp_path / 'file'}: is not a directory\n  set DAYFLY_DATA")


def test_a_source_of_runsc_that_is_none_is_named(dayfly: Dayfly) -> None:
    done = dayfly("setup", "--from", "relase")
    assert done.returncode == 2
    assert done.stderr == (
        "dayfly: --from relase: is neither a source nor a file\n"
        "  did you mean release? --from takes distribution, release, go, or the PATH of a runsc\n"
    )


@pytest.mark.parametrize(
    ("command", "remedy"), [(("keys", "list"), "dayfly keys create"), (("secrets", "list"), "dayfly secrets set")]
)
def test_a_list_of_nothing_says_so_to_a_person_and_nothing_to_a_program(
    dayfly: Dayfly, command: tuple[str, str], remedy: str
) -> None:
    done = dayfly(*command)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert remedy in done.stderr


def test_tables_on_a_pipe_are_whole_lines(dayfly: Dayfly, tmp_path: Path) -> None:
    missing = tmp_path / ("x" * 150)
    found = dayfly("doctor", DAYFLY_RUNSC=str(missing), COLUMNS="40").stdout
    assert re.search(rf"^no +runsc .*{re.escape(str(missing))}'$", found, re.MULTILINE), found
    assert len(dayfly("images", "list", COLUMNS="20").stdout.splitlines()) == len(
        json.loads(dayfly("images", "list", "--json").stdout)
    )


def test_limits_that_are_only_watched_are_told_on_demand_and_when_one_struck(dayfly: Dayfly) -> None:
    assert dayfly("run", *IMAGE, "-c", "1").stderr == ""
    done = dayfly("run", *IMAGE, "-v", "-c", "1")
    struck = dayfly("run", *IMAGE, "--timeout", "0.5", "-c", "while True: pass")
    watched = [
        limit
        for limit in json.loads(dayfly("run", *IMAGE, "--json", "-c", "1").stdout)["limits"]
        if limit["enforcement"] == "watched"
    ]
    for told in (done, struck):
        assert told.stderr.count("watched") == (1 if watched else 0)


def start(environment: dict[str, str], *arguments: str, **popen: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dayfly", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_the_middle_of_a_run_leaves_nothing(
    environment: dict[str, str], data: Path, number: signal.Signals, code: int
) -> None:
    with start(environment, "run", *IMAGE, "-c", "print('running', flush=True)\nwhile True: pass") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"running\n"
        process.send_signal(number)
        assert process.wait(20) == code
        assert b'Traceback (most recent call last):\n  File "/' not in process.stderr.read()
    assert leftovers(data) == []


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.35, 0.5, 0.7])
def test_ctrl_c_at_any_moment_of_the_start_leaves_nothing(
    environment: dict[str, str], data: Path, delay: float
) -> None:
    with start(environment, "run", *IMAGE, "-c", "while True: pass") as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (130, -signal.SIGINT, 1)  # the latter two while Python itself starts
    assert leftovers(data) == []


def test_a_reader_that_goes_away_is_no_traceback(environment: dict[str, str], data: Path) -> None:
    with start(environment, "run", *IMAGE, "-c", "while True: print('x' * 1000)") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""
    assert leftovers(data) == []


def test_doctor_tells_in_words_and_json_and_exit_code(dayfly: Dayfly, tmp_path: Path) -> None:
    done = dayfly("doctor", "--json")
    findings = json.loads(done.stdout)
    assert {finding["name"] for finding in findings} >= {"python", "runsc", "images", "boundary gvisor"}
    assert done.returncode == (1 if any(finding["ok"] is False for finding in findings) else 0)
    broken = dayfly("doctor", DAYFLY_RUNSC=str(tmp_path / "missing"))
    assert broken.returncode == 1
    assert "DAYFLY_RUNSC names no file" in " ".join(broken.stdout.split())


def test_setup_on_a_machine_that_is_ready_changes_nothing(dayfly: Dayfly, data: Path) -> None:
    before = sorted(path.name for path in data.iterdir())
    done = dayfly("setup", "--image", "python")
    assert done.returncode == 0, done.stderr
    assert "ready" in done.stdout
    assert set(before) <= {path.name for path in data.iterdir()} <= {*before, "cache", "cells", "run", "agents"}


def test_images_are_listed_and_shown_and_unknown_ones_refused(dayfly: Dayfly) -> None:
    listed = json.loads(dayfly("images", "list", "--json").stdout)
    assert "python" in {name for image in listed for name in image["names"]}
    assert re.search(r"python\b.*MiB", dayfly("images", "list").stdout)
    shown = json.loads(dayfly("images", "show", "python", "--json").stdout)
    assert {"python3", "ipython"} <= {package["name"].lower() for package in shown["contents"]}
    assert "ipython" in dayfly("images", "show", "python").stdout
    for arguments in (("show", "nope"), ("rm", "nope"), ("build", "nope"), ("build",), ("build", "--add", "x")):
        done = dayfly("images", *arguments)
        assert (done.returncode, done.stderr.startswith("dayfly: ")) == (2, True), done.stderr


def test_a_debugger_may_ask_for_the_traceback(dayfly: Dayfly) -> None:
    done = dayfly("run", "missing.py", DAYFLY_DEBUG="1")
    assert "Traceback" in done.stderr
    assert done.returncode == 2


def test_the_version_and_the_help_are_there(dayfly: Dayfly) -> None:
    from dayfly import __version__

    assert dayfly("--version").stdout == f"dayfly {__version__}\n"
    for command in ("run", "shell", "setup", "doctor", "images"):
        assert command in dayfly("--help").stdout
    assert "--out" in dayfly("run", "--help", TERMINAL_WIDTH="200").stdout


def test_the_documentation_names_every_option_and_exit_code() -> None:
    from dayfly.cli.endings import Ending

    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "src/dayfly/cli").glob("*.py"))
    for option in set(re.findall(r'"(--[a-z-]+)"', source)) - {"--version"}:
        assert option in page, option
    for ending in Ending:
        assert re.search(rf"^\| {ending.value} \|", page, re.MULTILINE), ending
