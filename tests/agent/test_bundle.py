"""The agent as one file."""

from __future__ import annotations

import importlib
import importlib.util
import io
import marshal
import os
import stat
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from dayfly import agent_bundle
from dayfly.agent import zipmain
from dayfly.agent.zipmain import Preloaded
from dayfly.agent_bundle import agent_for, bundle
from dayfly.errors import HostError
from dayfly.spec import Image

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def image(version: str = HERE) -> Image:
    return Image("any", "sha256:0", os.uname().machine, Path("/"), python_version=version)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def start(path: Path) -> str:
    """Run the bundle as the boundary does; an agent whose host is gone leaves at once. Returns its standard error."""
    command = [sys.executable, "-I", "-S", str(path)]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode()


def test_it_holds_the_wire_and_the_agent_and_an_empty_package(tmp_path: Path) -> None:
    found = members(agent_for(image(), tmp_path))
    assert found["dayfly/__init__.py"] == b""
    packages = {name.split("/")[1] for name in found if name.startswith("dayfly/") and name.count("/") > 1}
    assert packages == {"wire", "agent"}
    assert {"__main__.py", "dayfly/agent/core.py", "dayfly/agent/kernels/driver.js", "dayfly/wire/frames.py"} <= set(
        found
    )


def test_it_starts_and_ends_with_its_stream(tmp_path: Path) -> None:
    assert start(agent_for(image(), tmp_path)) == ""


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    sources = agent_bundle._sources()
    assert bundle(sources, sys.executable) == bundle(sources, sys.executable)
    assert bundle(sources, None) == bundle(dict(reversed(sources.items())), None)


def test_bytes_do_not_depend_on_the_process_that_makes_them(tmp_path: Path) -> None:
    code = "import sys; from dayfly.agent_bundle import *; from dayfly import agent_bundle as b; "
    code += "sys.stdout.buffer.write(b.bundle(b._sources(), sys.executable))"
    outputs = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_another_source_gets_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = agent_for(image(), tmp_path)
    changed = {**agent_bundle._sources(), "dayfly/agent/core.py": b"# other\n"}
    monkeypatch.setattr(agent_bundle, "_sources", lambda: changed)
    assert agent_for(image(), tmp_path) != first


def test_it_is_made_once_and_everybody_may_read_it(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        path = agent_for(image(), tmp_path / "agents")
    finally:
        os.umask(old)
    made = path.stat()
    assert stat.S_IMODE(made.st_mode) == 0o644
    assert agent_for(image(), tmp_path / "agents") == path
    assert path.stat().st_mtime_ns == made.st_mtime_ns
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_nothing_is_compressed_so_that_nothing_is_unpacked_inside(tmp_path: Path) -> None:
    with zipfile.ZipFile(agent_for(image(), tmp_path)) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_compiled_code_is_what_runs(tmp_path: Path) -> None:
    """With sources that cannot be compiled at all, the bundle still starts."""
    files = members(agent_for(image(), tmp_path))
    broken = tmp_path / "broken.pyz"
    with zipfile.ZipFile(broken, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, b"this is no Python" if name.endswith(".py") else content)
    assert start(broken) == ""


def test_one_record_holds_all_modules_and_is_what_they_are_imported_from(tmp_path: Path) -> None:
    """With a zip whose single modules are all broken, the bundle still starts; with a broken record, from the modules."""
    files = members(agent_for(image(), tmp_path))
    modules = {name for name in files if name.startswith("dayfly/") and name.endswith(".py")}
    parts = zipmain.record(str(agent_for(image(), tmp_path)))
    assert parts is not None
    assert len(marshal.loads(parts[1])) == len(modules)
    for number, broken in enumerate(({f"{name}c" for name in modules} | modules, {"preloaded"})):
        path = tmp_path / f"broken{number}.pyz"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, b"this is no Python" if name in broken else content)
        assert start(path) == ""


def test_a_record_gives_each_module_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the name is free: code of the user's may have a package of the same one."""
    code = marshal.dumps(compile("value = 7", "one", "exec"))
    codes = memoryview(b"before" + code + b"after")
    finder = Preloaded("/no/archive", {"only_here": (False, "only_here.py", 6, 6 + len(code))}, codes)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.import_module("only_here").value == 7
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("only_here")


def test_a_record_is_found_without_a_look_through_the_zip_and_only_by_the_python_that_it_is_for(tmp_path: Path) -> None:
    path = agent_for(image(), tmp_path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
    assert (first.filename, first.header_offset) == (zipmain.RECORD.decode(), 0)
    assert content[: zipmain.HEADER].endswith(zipmain.RECORD)
    for place in (zipmain.HEADER - 1, zipmain.HEADER):  # another first member, another magic number
        other = tmp_path / "other.pyz"
        other.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert zipmain.record(str(other)) is None


def test_the_first_program_inside_starts_it_with_the_record_and_without(tmp_path: Path) -> None:
    boot = Path(agent_bundle.__file__).parent / "boundaries/gvisor/boot.py"
    sources = tmp_path / "sources.pyz"
    sources.write_bytes(bundle(agent_bundle._sources(), None))
    only_record = tmp_path / "cut.pyz"
    only_record.write_bytes(agent_for(image(), tmp_path).read_bytes()[:-1])  # no zip any more: its end is broken
    with pytest.raises(zipimport.ZipImportError):
        zipimport.zipimporter(str(only_record))
    for agent in (agent_for(image(), tmp_path), sources, only_record):
        command = [sys.executable, "-I", "-S", str(boot), str(agent)]
        done = subprocess.run(command, input=b"", capture_output=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_every_module_is_compiled_for_this_python_and_never_checked_against_its_source(tmp_path: Path) -> None:
    files = members(agent_for(image(), tmp_path))
    for name in (name for name in files if name.endswith(".py")):
        head = files[f"{name}c"][:16]
        assert head[:4] == importlib.util.MAGIC_NUMBER
        assert int.from_bytes(head[4:8], "little") == 0b01  # hash-based, unchecked


def test_without_an_interpreter_of_the_images_version_the_sources_alone_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = agent_for(image("3.99"), tmp_path / "agents")
    assert not [name for name in members(path) if name.endswith(".pyc")]
    assert start(path) == ""


def test_another_interpreter_on_path_compiles_for_its_own_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3.99"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = members(agent_for(image("3.99"), tmp_path / "agents"))
    assert found["dayfly/agent/core.pyc"] == members(agent_for(image(), tmp_path / "agents"))["dayfly/agent/core.pyc"]


def test_an_interpreter_that_does_not_work_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python3.99"
    other.write_text("#!/bin/sh\nexit 127\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert start(agent_for(image("3.99"), tmp_path / "agents")) == ""


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="file"):
        agent_for(image(), tmp_path / "file")


def test_old_bundles_go_when_a_new_one_is_made(tmp_path: Path) -> None:
    old, recent, other = tmp_path / f"{'0' * 64}.pyz", tmp_path / f"{'1' * 64}.pyz", tmp_path / "other.txt"
    for path in (old, recent, other):
        path.write_bytes(b"")
    for path in (old, other):
        os.utime(path, (0, 0))
    agent_for(image(), tmp_path)
    assert (old.exists(), recent.exists(), other.exists()) == (False, True, True)


def test_a_bundle_in_use_is_not_old(tmp_path: Path) -> None:
    path = agent_for(image(), tmp_path)
    os.utime(path, (0, 0))
    assert agent_for(image(), tmp_path) == path
    agent_bundle._clear(tmp_path)
    assert path.exists()


def test_a_bundle_is_a_zip_that_python_can_import_from() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle({"__main__.py": b"x = 1\n"}, None))) as archive:
        assert archive.testzip() is None
