"""The configuration file: every key known, and nothing served that others could overhear."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
import tomllib
from io import BytesIO
from pathlib import Path

import pytest

from dayfly.cli.serve import LIBRARIES, configured
from dayfly.errors import HostError, InputError
from dayfly.limits import GIB, MIB
from dayfly.server import Configuration, Readiness, load_configuration, logs, start_logging
from dayfly.server.logs import log, log_request
from dayfly.server.serving import Listener

WHOLE = """
host = "0.0.0.0"
port = 443
behind_proxy = false
hosts = ["box.example"]
connections = 200
tls = {certificate = "/etc/box.pem", key = "/etc/box.key"}

[machine]
factor = 4

[default_caps]
sandboxes = 5

[tenants.research]
memory = "64GiB"
cpu_seconds_per_day = 36000

[network]
names = ["api.example.com", "*.example.org"]
private = ["10.1.0.0/16"]

[templates.data]
policy = {image = "data", limits = {memory = "512MiB"}, network = [{host = "db", private = "192.168.0.0/16"}]}
spares = 3
"""


def written(place: Path, text: str) -> Path:
    file = place / "server.toml"
    file.write_text(text)
    return file


def test_a_whole_file(place: Path) -> None:
    found = load_configuration(written(place, WHOLE), port=8443)
    assert (found.host, found.port, found.hosts) == ("0.0.0.0", 8443, {"box.example"}), "an option beats the file"
    assert found.caps_of("research").memory == 64 * GIB
    assert found.caps_of("anybody").sandboxes == 5
    assert found.network.names == {"api.example.com", "*.example.org"}
    assert [str(one) for one in found.network.private] == ["10.1.0.0/16"]
    assert (found.templates["data"].spares, found.templates["data"].policy.image) == (3, "data")


def test_the_example_on_the_page_is_whole_and_loads(place: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    found = load_configuration(written(place, example))
    assert found.templates["data"].preload == ("pandas",)
    for name in Configuration.model_fields:
        assert re.search(rf"^#? ?(\[)?{name}\b", example, re.MULTILINE), f"{name} is missing"
    defaults = load_configuration(None)
    shown = {"default_caps", "tenants", "templates", "ceilings"}
    assert found.model_dump(exclude=shown) == defaults.model_dump(exclude=shown)
    assert all(
        getattr(found.ceilings, name) == getattr(defaults.ceilings, name) for name in found.ceilings.model_fields_set
    )


def test_one_ceiling_leaves_the_others_as_they_are(place: Path) -> None:
    found = load_configuration(written(place, '[ceilings]\noutput = "1MiB"\n')).ceilings
    assert (found.output, found.memory, found.processes) == (MIB, 64 * GIB, 4096)


def test_without_a_file_the_defaults_hold() -> None:
    found = load_configuration(None, port=None)
    assert (found.host, found.is_loopback, found.caps_of("t").sandboxes) == ("127.0.0.1", True, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [("prot = 1", "prot"), ("port = 70000", "port"), ("[tenants.t]\nmemmory = 1", "memmory"), ("port = ", "TOML"),
     ("[templates.d]\npolicy = {imag = 'x'}", "imag"), ("tls = {key = 'x'}", "certificate"), ("\xff", "TOML")],
)  # fmt: skip
def test_a_mistake_is_named_with_its_file_and_a_remedy(place: Path, text: str, told: str) -> None:
    file = place / "server.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=told) as caught:
        load_configuration(file)
    assert "server.toml" in caught.value.message
    assert caught.value.remedy


def test_a_file_that_is_not_there(place: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_configuration(place / "none.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "box.example", ""])
def test_an_address_that_others_reach_needs_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(InputError, match="unencrypted"):
        load_configuration(None, host=host)
    assert load_configuration(None, host=host, behind_proxy=True).host == host
    assert load_configuration(None, host=host, tls={"certificate": "a", "key": "b"}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert load_configuration(None, host=host).is_loopback


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    first = Listener.bind(Configuration(port=0))
    with pytest.raises(HostError, match="cannot listen"):
        Listener.bind(Configuration(port=int(first.url.rpartition(":")[2])))
    first.socket.close()


async def test_whether_it_is_ready_is_looked_at_now_and_then() -> None:
    now, looks = [0.0], []

    def look() -> str | None:
        looks.append(now[0])
        return "no runsc" if len(looks) > 1 else None

    ready = Readiness(look, lambda: now[0])
    assert [await ready() for _ in range(3)] == [None] * 3
    now[0] = 11
    assert await ready() == "no runsc"
    assert looks == [0, 11]


def _silence() -> None:
    for name in ("dayfly.server", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)


def test_the_log_is_json_without_values() -> None:
    stream = BytesIO()
    end = start_logging(stream.write)
    try:
        log_request({"path": "/v1/sandboxes/secret-id", "method": "GET", "query_string": b"path=secret"}, 200, 0.5)
        try:
            raise ValueError("secret code")
        except ValueError:
            log.exception("failed")
        logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task InputError('secret')>")
        logging.getLogger("asyncio").warning("Executing <Task secret> took 5 seconds")
        log_request({"route": type("R", (), {"path": "/healthz"})}, 200, 0.5)
        end()
    finally:
        _silence()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "request",
        "failed",
        "Task exception was never retrieved",
        "Executing",
    ]
    assert (lines[0]["status"], lines[1]["error"]) == (200, "ValueError")
    assert b"secret" not in stream.getvalue()


def test_a_log_that_nobody_reads_holds_up_nobody_and_says_how_much_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_WAITING", 5)
    writes, reads, stream = threading.Event(), threading.Event(), BytesIO()

    def write(line: bytes) -> int:
        """As a raw file does, which may take a part."""
        writes.set()
        assert reads.wait(60)
        return stream.write(line[:7])

    end = start_logging(write)
    try:
        for number in range(50):
            log.info("said", extra={"facts": {"number": number}})
            assert writes.wait(60)  # the first is out of the queue, which has room for five of the others
        reads.set()
        while log.handlers[0].queue.full():  # type: ignore[attr-defined]
            pass
        log.info("last")
        end()
    finally:
        _silence()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["number"] for line in lines[:-1]] == list(range(6))
    assert lines[-1]["event"] == "last"
    assert lines[-1]["lines_dropped"] == 50 - 6


def test_what_reads_keys_and_the_journal_loads_no_web_framework() -> None:
    code = "import sys, dayfly.server; print(*sorted({'fastapi', 'uvicorn', 'prometheus_client'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"


def test_libraries_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    extra = {re.split("[<>=]", line)[0].replace("-", "_") for line in project["optional-dependencies"]["server"]}
    assert set(LIBRARIES) == extra
    configured(None)
    monkeypatch.setattr("dayfly.cli.serve.LIBRARIES", ("fastapi", "dayfly_no_such_library"))
    with pytest.raises(HostError, match="not installed: dayfly_no_such_library"):
        configured(None)
