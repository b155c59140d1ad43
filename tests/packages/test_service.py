"""The gateway's answers: what is listed and nothing else, from the index and from nowhere else."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Refused, Request, Response
from dayfly.egress.services.packages import PackagesService
from dayfly.egress.services.packages.index import BadUrl
from dayfly.egress.services.packages.index import Index as TheIndex
from dayfly.egress.services.packages.node import ABBREVIATED
from dayfly.egress.services.packages.pages import JSON
from dayfly.egress.terms import Terms
from dayfly.network import parse_network
from tests.packages.door import Loopback, content
from tests.packages.index import HOST, NEW, PORT, Index, tarball, wheel

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PIP = (("accept", f"{JSON}, text/html;q=0.01"), ("user-agent", "pip/26.3 {}"))


class Stage:
    """An index, a sandbox that asks, and everything that is sent outside."""

    def __init__(self, index: Index, **urls: str) -> None:
        self.index = index
        self.upstreams = Loopback(**{HOST.replace(".", "_"): index.port})
        self.urls = {"python": f"http://{HOST}:{PORT}/simple/", "node": f"http://{HOST}:{PORT}/", **urls}
        self.rule(python=["demo"], node=["demo", "@s/dep"])

    def rule(self, private: str | None = None, **packages: Any) -> None:
        rules = parse_network([{"packages": packages, "private": private}])
        terms = Terms(rules=rules, indexes={kind: url for kind, url in self.urls.items() if url})  # type: ignore[misc]
        self.service = PackagesService(rules[0], 7, terms, now=lambda: NOW)  # type: ignore[list-item]

    async def ask(self, path: str, *headers: tuple[str, str], method: str = "GET") -> Response:
        try:
            return await self.service.answer(Request(method, path, headers=headers), self.upstreams)
        except Refused as refused:
            return self.service.refusal(refused.denied, 403)

    async def get(self, path: str, *headers: tuple[str, str]) -> bytes:
        """Of something that may be had."""
        response = await self.ask(path, *headers)
        found = await content(response)
        assert response.status == 200, found
        return found

    async def page(self, name: str = "demo") -> list[dict[str, Any]]:
        found = json.loads(await self.get(f"/python/simple/{name}/", ("accept", JSON)))
        assert isinstance(found["files"], list)
        return found["files"]

    async def document(self, name: str = "demo", *headers: tuple[str, str]) -> dict[str, Any]:
        found = json.loads(await self.get(f"/node/{name}", *headers))
        assert isinstance(found, dict)
        return found

    async def denied(self, path: str, *headers: tuple[str, str], method: str = "GET") -> tuple[str, str]:
        with pytest.raises(Refused) as caught:
            await self.service.answer(Request(method, path, headers=headers), self.upstreams)
        denied = caught.value.denied
        assert (denied.host, denied.port) == ("packages.dayfly.internal", 80)
        assert denied.remedy
        return denied.code, denied.reason

    @property
    def asked(self) -> list[str]:
        return [path for _, path, _ in self.index.asked]


@pytest.fixture
def stage() -> Iterator[Stage]:
    index = Index()
    index.add("demo", "1.0")
    index.add("demo", "2.0")
    index.add_source("demo", "3.0")
    index.add("other", "1.0")
    index.add_node("demo", "1.0.0")
    index.add_node("demo", "1.1.0")
    index.add_node("@s/dep", "1.0.0")
    index.add_node("other", "1.0.0")
    with index.running():
        yield Stage(index)


# --- what is listed ---------------------------------------------------------------------------------------------------


async def test_a_listed_package_has_its_wheels_and_they_are_whole(stage: Stage) -> None:
    files = await stage.page()
    assert [one["filename"] for one in files] == ["demo-1.0-py3-none-any.whl", "demo-2.0-py3-none-any.whl"]
    assert files[0]["url"] == "/python/files/demo/demo-1.0-py3-none-any.whl"
    _, expected, metadata = wheel("demo", "1.0")
    assert files[0]["hashes"] == {"sha256": hashlib.sha256(expected).hexdigest()}
    assert await stage.get(files[0]["url"]) == expected
    assert await stage.get(files[0]["url"] + ".metadata") == metadata


async def test_a_page_is_the_same_in_html(stage: Stage) -> None:
    stage.index.projects["demo"][0].update({"requires-python": '>=3.9,<"4"', "yanked": "<b>"})
    text = (await stage.get("/python/simple/Demo/")).decode()
    assert text.count("<a ") == 2
    assert 'data-requires-python="&gt;=3.9,&lt;&quot;4&quot;"' in text
    assert 'data-yanked="&lt;b&gt;"' in text
    assert "/python/files/demo/demo-1.0-py3-none-any.whl#sha256=" in text


@pytest.mark.parametrize("accept", [JSON, "text/html"])
async def test_a_page_is_read_and_written_beside_the_loop(stage: Stage, accept: str) -> None:
    """Of tens of thousands of files that takes a second, in which no other sandbox would get anything."""
    here = set()
    sys.setprofile(
        lambda frame, event, _: here.add(frame.f_code.co_name) if event == "call" else None
    )  # of this thread alone
    try:
        page = await stage.get("/python/simple/demo/", ("accept", accept))
    finally:
        sys.setprofile(None)
    assert b"demo-2.0-py3-none-any.whl" in page
    assert "page_of" in here
    assert not here & {"files_of", "_chosen", "_on", "project_page", "_described", "_anchor"}


async def test_an_index_in_html_serves_as_well(stage: Stage) -> None:
    stage.index.form = "html"
    files = await stage.page()
    assert [one["filename"] for one in files] == ["demo-1.0-py3-none-any.whl", "demo-2.0-py3-none-any.whl"]
    assert await stage.get(files[1]["url"]) == wheel("demo", "2.0")[1]


async def test_the_whole_index_is_what_is_listed(stage: Stage) -> None:
    assert json.loads(await stage.get("/python/simple/", ("accept", JSON)))["projects"] == [{"name": "demo"}]
    assert b'href="/python/simple/demo/"' in await stage.get("/python/simple/")
    assert stage.asked == []


async def test_a_listed_package_of_npm_has_its_versions_and_they_are_whole(stage: Stage) -> None:
    document = await stage.document()
    assert list(document["versions"]) == ["1.0.0", "1.1.0"]
    dist = document["versions"]["1.0.0"]["dist"]
    assert dist["tarball"] == "http://packages.dayfly.internal/node/demo/-/demo-1.0.0.tgz"
    assert await stage.get("/node/demo/-/demo-1.0.0.tgz") == tarball("demo", "1.0.0")


@pytest.mark.parametrize("path", ["@s/dep", "@s%2fdep", "@s%2Fdep", "%40s%2fdep"])
async def test_a_scope_is_written_in_two_ways(stage: Stage, path: str) -> None:
    if path.startswith("%40"):  # npm does not; it is refused or right, never something else
        assert (await stage.ask(f"/node/{path}")).status in (200, 403)
        return
    document = await stage.document(path)
    assert document["name"] == "@s/dep"
    assert await stage.get("/node/@s/dep/-/dep-1.0.0.tgz") == tarball("@s/dep", "1.0.0")


async def test_an_answer_names_the_rule_that_allowed_it(stage: Stage) -> None:
    assert (await stage.ask("/python/simple/demo/")).rule == 7
    assert (await stage.ask("/python/files/demo/demo-1.0-py3-none-any.whl")).rule == 7
    assert (await stage.ask("/node/demo")).rule == 7


async def test_head_is_answered_without_a_body_of_anybody(stage: Stage) -> None:
    response = await stage.ask("/python/files/demo/demo-1.0-py3-none-any.whl", method="HEAD")
    assert (response.status, await content(response)) == (200, b"")
    assert "/files/demo-1.0-py3-none-any.whl" not in stage.asked


async def test_what_was_asked_once_is_not_asked_again_on_a_connection(stage: Stage) -> None:
    for path in (
        "/python/simple/demo/",
        "/python/files/demo/demo-1.0-py3-none-any.whl",
        "/node/demo",
        "/node/demo/-/demo-1.0.0.tgz",
    ):
        await stage.get(path)
    assert [path for path in stage.asked if path in ("/simple/demo/", "/demo")] == ["/simple/demo/", "/demo"]


# --- what is not ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/python/simple/other/", "/python/simple/other", "/python/simple/OTHER/", "/python/files/other/other-1.0-py3-none-any.whl",
        "/node/other", "/node/@s/other", "/node/@s%2fother", "/node/other/-/other-1.0.0.tgz", "/node/Demo",
    ],
)  # fmt: skip
async def test_a_name_that_is_not_listed_is_refused_before_anybody_is_asked(stage: Stage, path: str) -> None:
    code, reason = await stage.denied(path)
    assert code == "package_not_listed"
    assert "is not on this sandbox's list of packages" in reason
    assert stage.index.asked == []
    assert stage.upstreams.sent == []


async def test_a_name_that_does_not_exist_is_not_found(stage: Stage) -> None:
    stage.rule(python=["demo", "missing"], node=["missing"])
    for path in ("/python/simple/missing/", "/node/missing"):
        response = await stage.ask(path)
        assert response.status == 404
        assert b"The package index has no missing" in await content(response)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        "/node/demo",
        "/python/simple/demo/",
        "/node/-/npm/v1/security/advisories/bulk",
        "/node/-/user/org.couchdb.user:me",
    ],
)
async def test_nothing_is_published(stage: Stage, method: str, path: str) -> None:
    code, _ = await stage.denied(path, method=method)
    assert code == "request_not_listed"
    assert stage.upstreams.sent == []


@pytest.mark.parametrize(
    "path",
    [
        "/", "/python", "/python/", "/python/legacy/", "/node", "/node/", "/node/-/whoami", "/node/-/v1/search", "/node/@s", "/node/@s/dep/x", "/node/demo/1.0.0",
        "/python/simple/demo/extra/", "/python/simple/../files/x", "/python/simple/%2e%2e/", "/python/simple/demo%2f..%2fother/", "/python/simple/de mo/",
        "/python//simple/demo/", "/python/files/demo/..%2f..%2fsecret", "/node/@s%2f..%2fother", "/node/@s%5cdep", "/node/demo/-/../../x", "/simple/demo/",
        "/node/@s%2f%2fdep", "/python/files/demo/demo-1.0-py3-none-any.whl/x", "/python/simple/d%00emo/", "/python/simple/demo/;x", "/node/@s%2fdep/-/x/y",
    ],
)  # fmt: skip
async def test_other_places_are_nowhere(stage: Stage, path: str) -> None:
    await stage.denied(path)
    assert stage.upstreams.sent == []


@pytest.mark.parametrize(
    "path",
    [
        "/python/files/demo/demo-9.9-py3-none-any.whl", "/python/files/demo/demo-3.0.tar.gz", "/python/files/demo/other-1.0-py3-none-any.whl",
        "/node/demo/-/demo-9.9.9.tgz", "/node/demo/-/other-1.0.0.tgz", "/node/demo/-/demo-1.0.0.zip", "/node/demo/-/1.0.0", "/node/@s/dep/-/@s%2fdep-1.0.0.tgz",
    ],
)  # fmt: skip
async def test_a_file_that_is_not_on_the_page_is_refused(stage: Stage, path: str) -> None:
    await stage.denied(path)
    assert not [asked for asked in stage.asked if "files" in asked or "/-/" in asked]


async def test_versions_are_held_to_the_list(stage: Stage) -> None:
    stage.rule(python=["demo<2"], node=["demo@~1.0.0"])
    assert [one["filename"] for one in await stage.page()] == ["demo-1.0-py3-none-any.whl"]
    await stage.denied("/python/files/demo/demo-2.0-py3-none-any.whl")
    document = await stage.document()
    assert (list(document["versions"]), document["dist-tags"]) == (["1.0.0"], {"latest": "1.0.0"})
    await stage.denied("/node/demo/-/demo-1.1.0.tgz")


async def test_hashes_are_held_to_the_list(stage: Stage) -> None:
    right = hashlib.sha256(wheel("demo", "1.0")[1]).hexdigest()
    stage.rule(python=[f"demo==1.0 --hash=sha256:{right}", f"demo==2.0 --hash=sha256:{'a' * 64}"])
    assert [one["filename"] for one in await stage.page()] == ["demo-1.0-py3-none-any.whl"]
    good = base64.b64encode(hashlib.sha512(tarball("demo", "1.0.0")).digest()).decode()
    bad = base64.b64encode(bytes(64)).decode()
    stage.rule(node=[f"demo@1.0.0 sha512-{good}", f"demo@1.1.0 sha512-{bad}"])
    assert list((await stage.document())["versions"]) == ["1.0.0"]


async def test_each_of_many_hashes_counts(stage: Stage) -> None:
    right = hashlib.sha256(wheel("demo", "1.0")[1]).hexdigest()
    stage.rule(
        python=[" ".join(["demo", *(f"--hash=sha256:{one:064x}" for one in range(99)), f"--hash=sha256:{right}"])]
    )
    assert [one["filename"] for one in await stage.page()] == ["demo-1.0-py3-none-any.whl"]
    good = hashlib.sha512(tarball("demo", "1.0.0")).digest()
    others = (number.to_bytes(64) for number in range(99))
    hashes = ["sha512-" + base64.b64encode(one).decode() for one in (*others, good)]
    stage.rule(node=[" ".join(["demo", *hashes])])
    assert list((await stage.document())["versions"]) == ["1.0.0"]


async def test_source_archives_are_had_where_the_rule_says_so(stage: Stage) -> None:
    stage.rule(python=["demo"], wheels_only=False)
    assert [one["filename"] for one in await stage.page()][-1] == "demo-3.0.tar.gz"
    assert await stage.get("/python/files/demo/demo-3.0.tar.gz") == tarball("demo", "3.0")


async def test_what_is_too_new_is_not_there(stage: Stage) -> None:
    stage.index.projects["demo"][1]["upload-time"] = "2026-11-24T00:00:01Z"
    stage.index.documents["demo"]["time"]["1.1.0"] = "2026-11-24T00:00:01.000Z"
    stage.rule(python=["demo"], node=["demo"], min_age=6)
    assert [one["filename"] for one in await stage.page()] == ["demo-1.0-py3-none-any.whl"]
    document = await stage.document("demo", ("accept", ABBREVIATED))
    assert (list(document["versions"]), document["dist-tags"]["latest"], list(document["time"])) == (
        ["1.0.0"],
        "1.0.0",
        ["1.0.0"],
    )
    stage.rule(python=["demo"], node=["demo"], min_age=5)
    assert len(await stage.page()) == len((await stage.document())["versions"]) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.clear(), "has no files of it"),
        (lambda files: files.__delitem__(slice(2)), "has no wheels"),
        (lambda files: [one.pop("upload-time") for one in files], "does not tell when"),
        (lambda files: [one.update({"upload-time": NEW}) for one in files], "is too new"),
        (lambda files: files.__delitem__(0), "none of the versions"),
    ],
)
async def test_where_nothing_is_left_the_reason_is_said(stage: Stage, change: Any, said: str) -> None:
    stage.rule(python=["demo==1.0"], min_age=1)
    change(stage.index.projects["demo"])
    code, reason = await stage.denied("/python/simple/demo/")
    assert code == "package_not_listed"
    assert said in reason
    assert said in (await stage.denied("/python/files/demo/demo-1.0-py3-none-any.whl"))[1]


async def test_an_index_in_html_tells_no_age_so_nothing_is_old_enough(stage: Stage) -> None:
    stage.index.form = "html"
    stage.rule(python=["demo"], min_age=1)
    assert "does not tell when" in (await stage.denied("/python/simple/demo/"))[1]


# --- how it is said ---------------------------------------------------------------------------------------------------


async def test_a_refusal_is_a_403_whose_phrase_and_body_say_why(stage: Stage) -> None:
    response = await stage.ask("/python/simple/other/")
    assert (response.status, response.header("x-dayfly-denied")) == (403, "package_not_listed")
    assert "other is not on this sandbox's list" in response.reason
    assert "other is not on this sandbox's list" in json.loads(await content(response))["error"]


async def test_pip_is_shown_a_file_that_says_it_and_that_it_does_not_get(stage: Stage) -> None:
    response = await stage.ask("/python/simple/other/", *PIP)
    (file,) = json.loads(await content(response))["files"]
    assert response.status == 200
    assert file["filename"] == "other-0+not.listed.for.this.sandbox-py3-none-any.whl"
    assert (await stage.ask(file["url"], *PIP)).status == 403
    assert stage.upstreams.sent == []


# --- what the index says is hostile -----------------------------------------------------------------------------------


async def broken(stage: Stage, path: str) -> bytes:
    """What comes of a file until the connection is cut."""
    response = await stage.ask(path)
    assert response.status == 200
    found = b""
    try:
        async for piece in response.body:
            found += piece
    except ConnectionResetError:
        return found
    raise AssertionError("it has come to its end")


async def test_a_file_that_is_another_one_is_cut_before_its_end(stage: Stage) -> None:
    _, expected, metadata = wheel("demo", "1.0")
    stage.index.files["/files/demo-1.0-py3-none-any.whl"] = expected[:-1] + b"x"
    stage.index.files["/files/demo-1.0-py3-none-any.whl.metadata"] = metadata + b"Requires-Dist: evil\n"
    stage.index.files["/demo/-/demo-1.0.0.tgz"] = tarball("demo", "6.6.6")
    assert len(await broken(stage, "/python/files/demo/demo-1.0-py3-none-any.whl")) < len(expected)
    assert await broken(stage, "/python/files/demo/demo-1.0-py3-none-any.whl.metadata") == b""
    assert await broken(stage, "/node/demo/-/demo-1.0.0.tgz") == b""


async def test_an_old_package_of_npm_is_held_to_its_sha1(stage: Stage) -> None:
    del stage.index.documents["demo"]["versions"]["1.0.0"]["dist"]["integrity"]
    assert await stage.get("/node/demo/-/demo-1.0.0.tgz") == tarball("demo", "1.0.0")
    stage.index.files["/demo/-/demo-1.0.0.tgz"] = b"x"
    assert await broken(stage, "/node/demo/-/demo-1.0.0.tgz") == b""


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/", "http://[::1]/x", "http://127.0.0.1/x", "http://0x7f.1/x", "file:///etc/passwd", "ftp://files.example.com/x",
        "gopher://x", "http://us er@/", "http://files.example.com:99999/x", "http://a.example\r\nX: y/x", "http://a.example.com/\r\nX:y", "javascript:x",
    ],
)  # fmt: skip
async def test_a_place_that_is_none_is_not_gone_to(stage: Stage, url: str) -> None:
    for one in stage.index.projects["demo"]:
        one["url"] = url
    stage.index.documents["demo"]["versions"]["1.0.0"]["dist"]["tarball"] = url
    for path in ("/python/files/demo/demo-1.0-py3-none-any.whl", "/node/demo/-/demo-1.0.0.tgz"):
        with pytest.raises(Unreachable):
            await stage.ask(path)
    assert {origin.host for origin, _ in stage.upstreams.sent} == {HOST}


async def test_credentials_go_to_the_index_and_to_nobody_whom_it_names(stage: Stage) -> None:
    stage.urls["python"] = f"http://me:p%40ss@{HOST}:{PORT}/simple/"
    stage.urls["node"] = f"http://:t0ken@{HOST}:{PORT}/"
    stage.rule(python=["demo"], node=["demo"])
    stage.upstreams.ports["files.example.com"] = stage.index.port
    stage.index.projects["demo"][0]["url"] = "http://files.example.com/files/demo-1.0-py3-none-any.whl"
    stage.index.overrides["/files/demo-2.0-py3-none-any.whl"] = (
        302,
        {"location": "http://files.example.com/moved"},
        b"",
    )
    stage.index.files["/moved"] = wheel("demo", "2.0")[1]
    texts = [str(await stage.page()), str(await stage.document())]
    for path in ("/python/files/demo/demo-1.0-py3-none-any.whl", "/python/files/demo/demo-2.0-py3-none-any.whl"):
        await stage.get(path)
    sent = [(origin.host, request.path, request.header("authorization")) for origin, request in stage.upstreams.sent]
    basic = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert sent == [
        (HOST, "/simple/demo/", basic),
        (HOST, "/demo", "Bearer t0ken"),
        ("files.example.com", "/files/demo-1.0-py3-none-any.whl", None),
        (HOST, "/files/demo-2.0-py3-none-any.whl", basic),
        ("files.example.com", "/moved", None),
    ]
    assert not [text for text in texts if "p@ss" in text or "p%40ss" in text or "t0ken" in text]


async def test_what_the_sandbox_sends_is_not_sent_on(stage: Stage) -> None:
    await stage.get("/python/simple/demo/", ("authorization", "Bearer mine"), ("cookie", "x"), ("range", "bytes=0-1"))
    ((_, request),) = stage.upstreams.sent
    assert [name for name, _ in request.headers] == ["accept", "accept-encoding", "user-agent"]


async def test_private_is_lifted_for_the_index_and_for_nobody_whom_it_names(stage: Stage) -> None:
    stage.rule(python=["demo"], private="10.1.0.0/16")
    stage.upstreams.ports["files.example.com"] = stage.index.port
    stage.index.projects["demo"][0]["url"] = "http://files.example.com/files/demo-1.0-py3-none-any.whl"
    await stage.get("/python/files/demo/demo-1.0-py3-none-any.whl")
    await stage.get("/python/files/demo/demo-2.0-py3-none-any.whl")
    assert [(origin.host, str(origin.private)) for origin, _ in stage.upstreams.sent] == [
        (HOST, "10.1.0.0/16"), ("files.example.com", "None"), (HOST, "10.1.0.0/16"),
    ]  # fmt: skip


async def test_an_index_in_https_names_nothing_in_http(stage: Stage) -> None:
    stage.urls["python"] = f"https://{HOST}/simple/"
    stage.rule(python=["demo"])
    stage.index.projects["demo"][0]["url"] = f"http://{HOST}/files/demo-1.0-py3-none-any.whl"
    with pytest.raises(Unreachable, match="plain http"):
        await stage.ask("/python/files/demo/demo-1.0-py3-none-any.whl")
    assert {origin.scheme for origin, _ in stage.upstreams.sent} == {"https"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((302, {"location": "/simple/demo/"}, b""), "redirects without an end"),
        ((302, {"location": "file:///etc/passwd"}, b""), "neither https nor http"),
        ((401, {"content-type": "text/plain"}, b"who"), "answered 401"),
        ((403, {"content-type": "text/plain"}, b"no"), "answered 403"),
        ((500, {"content-type": "text/plain"}, b"oh"), "answered 500"),
        ((200, {"content-type": "text/plain"}, b"oh"), "nothing that lists files"),
        ((200, {"content-type": JSON}, b"[" * 99999), "nothing that lists files"),
        ((200, {"content-type": JSON, "content-encoding": "gzip"}, b"x"), "compressed"),
    ],
)
async def test_an_index_that_fails_is_told_from_a_refusal(stage: Stage, answer: Any, said: str) -> None:
    stage.index.overrides["/simple/demo/"] = answer
    with pytest.raises(Unreachable, match=said):
        await stage.ask("/python/simple/demo/")


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"versions": 3}', b'{"name": "evil", "versions": {}}', b"[" * 99999]
)
async def test_a_document_that_is_none_is_not_given(stage: Stage, document: bytes) -> None:
    stage.index.overrides["/demo"] = (200, {"content-type": "application/json"}, document)
    with pytest.raises(Unreachable, match="no"):
        await stage.ask("/node/demo")


async def test_versions_that_fit_nothing_are_left_out(stage: Stage) -> None:
    versions = stage.index.documents["demo"]["versions"]
    good = versions["1.0.0"]
    bad = {
        "1": good,
        "x": good,
        "1.2.0": {},
        "1.3.0": 3,
        "1.4.0": {"dist": 3},
        "1.5.0": {"dist": {"tarball": 3}},
        "../1.6.0": good,
    }
    stage.index.documents["demo"].update(
        {"versions": {**bad, **versions}, "dist-tags": {"latest": "1.3.0", "x": 3}, "time": 3}
    )
    document = await stage.document()
    assert (list(document["versions"]), document["dist-tags"]) == (["1.0.0", "1.1.0"], {"latest": "1.1.0"})
    assert "time" not in document


async def test_a_page_without_an_end_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayfly.egress.services.packages.index.MOST_PAGE", 100)
    with pytest.raises(Unreachable, match="more than 100 bytes"):
        await stage.ask("/python/simple/demo/")


async def test_a_machine_without_an_index_says_so(stage: Stage) -> None:
    stage.urls = {"python": "", "node": "file:///srv/packages"}
    stage.rule(python=["demo"], node=["demo"])
    with pytest.raises(Unreachable, match="no index of python packages"):
        await stage.ask("/python/simple/demo/")
    with pytest.raises(Unreachable, match="neither https nor http"):
        await stage.ask("/node/demo")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "file:///a",
        "https://",
        "https://10.0.0.1/",
        "https://a b/",
        "https://a.example.com/ä",
        "https://:a%0db@a.example.com/",
    ],
)
def test_an_index_is_a_url_of_a_name(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        TheIndex.of(url)
    assert url not in str(caught.value) or not url


def test_credentials_are_shown_nowhere() -> None:
    index = TheIndex.of("https://me:secret@a.example.com:8443/simple")
    assert (index.base, index.origin.port) == ("https://a.example.com:8443/simple/", 8443)
    assert "secret" not in repr(index)
    assert index.authorization is not None
    assert index.authorization not in repr(index)
