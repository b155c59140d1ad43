"""A package index on loopback: wheels, source archives and npm tarballs made in memory; pages in JSON or HTML, as real ones have them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["HOST", "PORT", "Index", "tarball", "wheel"]

HOST, PORT = "index.example.com", 8080
"""As which the gateway knows it."""

OLD, NEW = "2020-01-02T03:04:05.678Z", "2999-01-01T00:00:00Z"


def wheel(name: str, version: str, requires: tuple[str, ...] = (), code: str = "") -> tuple[str, bytes, bytes]:
    """Its file's name, the file, and its metadata."""
    plain = name.replace("-", "_")
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    metadata = ("\n".join(lines) + "\n").encode()
    info = f"{plain}-{version}.dist-info"
    files = {
        f"{plain}.py": (code or f"VERSION = {version!r}\n").encode(),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},{_record(data)},{len(data)}\n" for file, data in files.items()) + f"{info}/RECORD,,\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for file, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0)), data)
    return f"{plain}-{version}-py3-none-any.whl", made.getvalue(), metadata


def _record(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def tarball(name: str, version: str, requires: dict[str, str] | None = None) -> bytes:
    manifest = {"name": name, "version": version, "main": "index.js", "dependencies": requires or {}}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for file, data in (
            ("package.json", json.dumps(manifest).encode()),
            ("index.js", f"module.exports = {version!r}\n".encode()),
        ):
            entry = tarfile.TarInfo(f"package/{file}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


@dataclass
class Index:
    """``asked``: every request that came, as method, path, and what it was authorized with. ``form``: of pages, json or html. ``overrides``:
    answers by path, as status, headers and body, before all others."""

    form: str = "json"
    files: dict[str, bytes] = field(default_factory=dict)
    projects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    overrides: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    port: int = 0

    def add(
        self, name: str, version: str, requires: tuple[str, ...] = (), time: str | None = OLD, **more: Any
    ) -> dict[str, Any]:
        """A wheel. Returns what the page says of it, which may be changed."""
        file, content, metadata = wheel(name, version, requires)
        self.files[f"/files/{file}"] = content
        self.files[f"/files/{file}.metadata"] = metadata
        return self._listed(
            name, file, content, time, {"core-metadata": {"sha256": hashlib.sha256(metadata).hexdigest()}, **more}
        )

    def add_source(self, name: str, version: str, time: str | None = OLD) -> dict[str, Any]:
        file, content = f"{name}-{version}.tar.gz", tarball(name, version)
        self.files[f"/files/{file}"] = content
        return self._listed(name, file, content, time, {})

    def _listed(self, name: str, file: str, content: bytes, time: str | None, more: dict[str, Any]) -> dict[str, Any]:
        told = {"filename": file, "url": f"../../files/{file}", "size": len(content), **more}
        told.setdefault("hashes", {"sha256": hashlib.sha256(content).hexdigest()})
        if time:
            told["upload-time"] = time
        self.projects.setdefault(name, []).append(told)
        return told

    def add_node(
        self, name: str, version: str, requires: dict[str, str] | None = None, time: str = OLD
    ) -> dict[str, Any]:
        """Returns its manifest, which may be changed."""
        content = tarball(name, version, requires)
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.files[path] = content
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {
            "tarball": f"http://{HOST}:{PORT}{path}",
            "integrity": integrity,
            "shasum": hashlib.sha1(content).hexdigest(),
        }
        document = self.documents.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}, "time": {}})
        manifest = {"name": name, "version": version, "dependencies": requires or {}, "dist": dist}
        document["versions"][version] = manifest
        document["time"][version] = time
        document["dist-tags"]["latest"] = version
        return manifest

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        path = path.partition("?")[0]
        if path in self.overrides:
            return self.overrides[path]
        if path in self.files:
            return 200, {"content-type": "application/octet-stream"}, self.files[path]
        if path.startswith("/simple/"):
            return self._page(path.removeprefix("/simple/").strip("/"))
        document = self.documents.get(path[1:].replace("%2F", "/").replace("%2f", "/"))
        if document is not None:
            return 200, {"content-type": "application/json"}, json.dumps(document).encode()
        return 404, {"content-type": "text/plain"}, b"not found"

    def _page(self, name: str) -> tuple[int, dict[str, str], bytes]:
        if name not in self.projects:
            return 404, {"content-type": "text/plain"}, b"not found"
        files = self.projects[name]
        if self.form == "json":
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
            return 200, {"content-type": "application/vnd.pypi.simple.v1+json"}, json.dumps(page).encode()
        lines = [
            f'<a href="{one["url"]}#sha256={one["hashes"].get("sha256")}">{one["filename"]}</a><br>' for one in files
        ]
        return (
            200,
            {"content-type": "text/html; charset=utf-8"},
            ("<html><body>" + "\n".join(lines) + "</body></html>").encode(),
        )

    @contextmanager
    def running(self, on: socket.socket | None = None) -> Iterator[Index]:
        """``on``: listens already; without it, a port of loopback."""
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                index.asked.append((self.command, self.path, self.headers.get("authorization")))
                status, headers, body = index.answer(self.path)
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=on is None) as server:
            if on is not None:
                server.socket.close()
                server.socket = on
            server.daemon_threads = True
            self.port = server.server_address[1]
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()
