"""Obtaining a runsc: only what was verified and answers as one is installed, and what was there stays until then."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import shutil
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.errors import BoundaryUnusable, HostError, InputError, RuntimeTooOld
from dayfly.obtain import obtain
from dayfly.paths import Paths, default_paths
from dayfly.runtime import FLOOR, find_runsc

NEW = "release-20260901.0"


def script(version: str = NEW) -> bytes:
    """A stand-in for runsc's program."""
    return f"""#!/bin/sh
case "$1 $2" in
"--version ") echo "runsc version {version}";;
"flags ") printf '  -platform string\\n    \\tsystrap (default)\\n';;
"help checkpoint") printf '  -compression value\\n    \\tx\\n';;
esac
""".encode()


def release(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:bz2") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Site:
    """A web server on loopback that has ``files``; ``asked`` lists what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                content = site.files.get(self.path)
                self.send_response(302 if self.path in site.moved else 404 if content is None else 200)
                self.send_header("Location", site.moved.get(self.path, ""))
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/latest"

    def publish(self, archive: bytes, wrong_sum: bool = False) -> None:
        name = f"/latest/{os.uname().machine}/gvisor.tar.bz2"
        digest = "0" * 128 if wrong_sum else hashlib.sha512(archive).hexdigest()
        self.files = {name: archive, f"{name}.sha512": f"{digest}  gvisor.tar.bz2\n".encode()}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    yield site
    site.server.shutdown()
    site.server.server_close()
    thread.join()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "data", tmp_path / "run")


def nothing_else(paths: Paths, kept: int = 0) -> bool:
    """Whether ``bin`` holds only ``kept`` installed runtimes and the link to one of them."""
    found = list(paths.bin.iterdir())
    return len(found) == (kept + 1 if kept else 0) and all(not path.name.startswith(".") for path in found)


def test_a_release_is_installed_with_its_helpers_and_found(site: Site, paths: Paths) -> None:
    site.publish(release({"runsc": script(), "gvisor-bin/gvisor_sentry": b"s", "containerd-shim-runsc-v1": b"big"}))
    found = obtain("release", paths=paths, releases=site.url)
    assert found.version == NEW
    assert find_runsc(paths, {}) == found
    assert found.path.parent.parent == paths.bin
    assert {path.name for path in found.path.parent.iterdir()} == {"runsc", "gvisor-bin"}
    assert (found.path.parent / "gvisor-bin/gvisor_sentry").stat().st_mode & 0o777 == 0o755
    assert nothing_else(paths, kept=1)


def test_a_release_that_is_not_what_its_sum_says_is_refused_and_what_was_there_stays(site: Site, paths: Paths) -> None:
    site.publish(release({"runsc": script("release-20260801.0")}))
    before = obtain("release", paths=paths, releases=site.url)
    site.publish(release({"runsc": script()}), wrong_sum=True)
    with pytest.raises(HostError, match="SHA-512"):
        obtain("release", paths=paths, releases=site.url)
    assert find_runsc(paths, {}) == before
    assert nothing_else(paths, kept=1)


@pytest.mark.parametrize("text", [b"", b"zz", b"0" * 127, b"<html>"])
def test_a_page_that_holds_no_sum_ends_it_before_the_download(site: Site, paths: Paths, text: bytes) -> None:
    site.publish(release({"runsc": script()}))
    [archive, sums] = site.files
    site.files[sums] = text
    with pytest.raises(HostError, match="holds no SHA-512"):
        obtain("release", paths=paths, releases=site.url)
    assert archive not in site.asked
    assert nothing_else(paths)


def test_a_release_without_a_runsc_and_a_broken_archive_are_refused(site: Site, paths: Paths) -> None:
    for archive, message in ((release({"other": b"x"}), "holds no runsc"), (b"no archive", "cannot be unpacked")):
        site.publish(archive)
        with pytest.raises(HostError, match=message):
            obtain("release", paths=paths, releases=site.url)
        assert nothing_else(paths)


def test_members_that_lead_out_of_the_release_are_not_unpacked(site: Site, paths: Paths, tmp_path: Path) -> None:
    site.publish(
        release({"runsc": script(), "../evil": b"x", "gvisor-bin/../evil": b"x", "gvisor-bin/..": b"x", "/evil": b"x"})
    )
    obtain("release", paths=paths, releases=site.url)
    assert not list(tmp_path.rglob("evil"))


def test_an_older_release_is_refused(site: Site, paths: Paths) -> None:
    site.publish(release({"runsc": script("release-20230101.0")}))
    with pytest.raises(RuntimeTooOld, match="use another source"):
        obtain("release", paths=paths, releases=site.url)
    assert nothing_else(paths)


def test_a_redirect_to_another_kind_of_address_is_refused(site: Site, paths: Paths) -> None:
    machine = os.uname().machine
    site.moved[f"/latest/{machine}/gvisor.tar.bz2.sha512"] = "ftp://127.0.0.1:9/x"
    with pytest.raises(HostError):
        obtain("release", paths=paths, releases=site.url)


def test_a_site_that_cannot_be_reached_is_an_error_with_other_ways(paths: Paths) -> None:
    with pytest.raises(HostError, match="cannot download") as caught:
        obtain("release", paths=paths, releases="https://127.0.0.1:9/latest")
    assert "--from go" in (caught.value.remedy or "")
    assert nothing_else(paths)


def test_the_distributions_package_is_enough(paths: Paths) -> None:
    (paths.data).mkdir()
    (paths.data / "cache").symlink_to(default_paths().cache)
    default_paths().cache.mkdir(parents=True, exist_ok=True)
    found = obtain(paths=paths)
    assert found.date is not None
    assert found.date >= FLOOR
    assert nothing_else(paths, kept=1)


def test_a_file_is_copied_and_the_original_left_alone(paths: Paths, tmp_path: Path) -> None:
    original = tmp_path / "mine"
    original.write_bytes(script())
    found = obtain(str(original), paths=paths)
    original.unlink()
    assert find_runsc(paths, {}) == found


def test_a_file_that_is_no_runsc_is_refused(paths: Paths, tmp_path: Path) -> None:
    shutil.copy("/bin/true", tmp_path / "true")
    with pytest.raises(BoundaryUnusable, match="not a runsc"):
        obtain(str(tmp_path / "true"), paths=paths)
    with pytest.raises(InputError, match="is not a file"):
        obtain("nonsense", paths=paths)
    assert nothing_else(paths)


def test_the_runtime_before_the_last_is_kept_for_live_sandboxes_and_older_ones_go(paths: Paths, tmp_path: Path) -> None:
    found = []
    for number in range(3):
        (tmp_path / "runsc").write_bytes(script(f"release-2026090{number + 1}.0"))
        found.append(obtain(str(tmp_path / "runsc"), paths=paths))
    assert [runsc.path.exists() for runsc in found] == [False, True, True]
    assert nothing_else(paths, kept=2)


def test_of_several_that_obtain_one_at_once_none_takes_anothers_away(paths: Paths, tmp_path: Path) -> None:
    source = tmp_path / "runsc"
    source.write_bytes(script())
    source.chmod(0o755)
    together = threading.Barrier(6)
    errors: list[Exception] = []

    def one() -> None:
        together.wait(60)
        try:
            for _ in range(4):
                obtain(str(source), paths=paths)
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    assert find_runsc(paths, {}).path.is_file()
    assert nothing_else(paths, kept=2)


def test_without_go_the_error_names_what_to_install(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="go is not installed"):
        obtain("go", paths=paths)
