"""What goes out, and what comes back in, with a store that says what a test wants."""

from __future__ import annotations

import base64
import datetime
import hashlib
import re

import botocore.auth
import pytest

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Body, Origin, Refused, Request, Response, nothing, once
from dayfly.egress.services.objects.rules import ObjectsRules
from dayfly.egress.services.objects.signing import BadCredentials, Credentials, credentials, load, signed
from dayfly.egress.verdict import CODES, Denied
from dayfly.network import ObjectsRule
from dayfly.network.objects import OBJECTS_HOST
from tests.egress.objects.adapter import Script, read
from tests.egress.objects.asks import READ, WRITE, ask, denied, rule, service
from tests.egress.objects.test_chunks import chunked, crc

EMPTY = hashlib.sha256().hexdigest()


async def sent(line: str, body: bytes = b"", **headers: str) -> tuple[Origin, Request, bytes]:
    script = Script()
    await service().answer(ask(line, body, **headers), script)
    return script.sent[0]


async def test_a_request_goes_out_anew() -> None:
    origin, request, _ = await sent("GET /lake/data/a%20b", authorization="AWS4 nobody", range="bytes=0-1", cookie="c")
    assert origin == Origin("https", "store.example", 443)
    assert (request.method, request.path, request.query, request.length) == ("GET", "/lake/data/a%20b", "", 0)
    names = [name for name, _ in request.headers]
    assert sorted(names) == [
        "accept-encoding", "authorization", "range", "user-agent", "x-amz-content-sha256", "x-amz-date",
    ]  # fmt: skip
    assert "Credential=AKID/" in (request.header("authorization") or "")
    assert request.header("x-amz-content-sha256") == EMPTY


async def test_the_first_rule_that_allows_it_is_used() -> None:
    script = Script()
    for line, index, name, key in (
        ("GET /lake/data/a", 0, "key", "AKID"),
        ("PUT /lake/out/a", 2, "other-key", "AKIE"),
        ("GET /lake?list-type=2&prefix=out/x", 2, "other-key", "AKIE"),
    ):
        found = await service().answer(ask(line), script)
        assert (found.rule, found.secret) == (index, name)
        assert f"Credential={key}/" in (script.sent[-1][1].header("authorization") or "")
    assert script.sent[-1][1].header("x-amz-security-token") == "token=="


async def test_no_rule_lends_its_access_to_another() -> None:
    both = service(rule(access=["list"]), rule(prefix="out/", access=["write"]), rule(bucket="swamp", access=["read"]))
    for line in (
        "GET /lake/data/a",
        "GET /lake/out/a",
        "PUT /lake/data/a",
        "GET /lake?prefix=out/",
        "PUT /swamp/data/a",
    ):
        assert (await denied(line, by=both)).code == "object_not_listed"
    assert (await both.answer(ask("GET /swamp/data/a"), Script())).rule == 4


async def test_all_keys_of_one_request_are_of_one_rule() -> None:
    body = b"<Delete><Object><Key>out/a</Key></Object><Object><Key>%s</Key></Object></Delete>"
    script = Script()
    await service().answer(ask("POST /lake?delete", body % b"out/b"), script)
    _, request, data = script.sent[0]
    assert data.count(b"<Key>out/") == 2
    assert request.header("content-md5") == base64.b64encode(hashlib.md5(data).digest()).decode()
    assert request.header("x-amz-content-sha256") == hashlib.sha256(data).hexdigest()
    found = await denied("POST /lake?delete", body % b"data/b")
    assert (found.code, "DeleteObjects" in found.reason) == ("object_not_listed", True)


async def test_a_copy_is_read_in_the_store_that_is_written_to() -> None:
    elsewhere = rule(endpoint="https://other.example")
    out = rule(prefix="out/", access="write")
    line = "PUT /lake/out/a"
    assert (await denied(line, by=service(elsewhere, out), x_amz_copy_source="lake/data/a")).code == "object_not_listed"
    script = Script()
    await service(READ, out).answer(ask(line, x_amz_copy_source="lake/data/a"), script)
    assert script.sent[0][1].header("x-amz-copy-source") == "/lake/data/a"


async def test_a_plain_store_in_a_private_network_is_asked_there() -> None:
    script = Script()
    given = {"bucket": "lake", "prefix": "", "endpoint": "http://minio:9000", "credentials": "key"}
    one = ObjectsRule(objects=given, private="10.1.0.0/16")
    await service(one).answer(ask("GET /lake/a"), script)
    assert script.sent[0][0] == Origin("http", "minio", 9000, one.private)


# --- bodies -------------------------------------------------------------------------------------------------------------


async def test_a_body_streams_and_keeps_its_digest() -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    _, request, data = await sent("PUT /lake/out/a", b"hello", x_amz_content_sha256=digest)
    assert (data, request.length, request.header("x-amz-content-sha256")) == (b"hello", 5, digest)
    _, request, _ = await sent("PUT /lake/out/a", b"hello", x_amz_content_sha256="UNSIGNED-PAYLOAD")
    assert request.header("x-amz-content-sha256") == "UNSIGNED-PAYLOAD"


@pytest.mark.parametrize("how", ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"])
async def test_chunks_are_taken_off(how: str) -> None:
    body = chunked(b"hello ", b"world", trailers=f"x-amz-checksum-crc32:{crc(b'hello world')}\r\n")
    more = {
        "x_amz_decoded_content_length": "11",
        "x_amz_trailer": "x-amz-checksum-crc32",
        "content_encoding": "aws-chunked",
    }
    _, request, data = await sent("PUT /lake/out/a", body, x_amz_content_sha256=how, **more)
    assert (data, request.length) == (b"hello world", 11)
    assert request.header("x-amz-content-sha256") == "UNSIGNED-PAYLOAD"
    assert not {"content-encoding", "x-amz-trailer", "x-amz-decoded-content-length"} & {
        name for name, _ in request.headers
    }


async def test_what_was_broken_on_its_way_is_refused_before_its_end() -> None:
    body = chunked(b"hello", trailers=f"x-amz-checksum-crc32:{crc(b'other')}\r\n")
    headers = {"x_amz_decoded_content_length": "5", "x_amz_trailer": "x-amz-checksum-crc32"}
    found = await denied("PUT /lake/out/a", body, x_amz_content_sha256="STREAMING-UNSIGNED-PAYLOAD-TRAILER", **headers)
    assert (found.code, found.reason) == ("bad_request", "The body is not what its checksum says.")


BAD = {
    "no length": {"x_amz_content_sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
    "a negative length": {
        "x_amz_content_sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x_amz_decoded_content_length": "-1",
    },
    "another trailer": {
        "x_amz_content_sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x_amz_decoded_content_length": "1",
        "x_amz_trailer": "x-amz-acl",
    },
    "an unknown way": {"x_amz_content_sha256": "STREAMING-SOMETHING-NEW"},
    "chunks that are not announced": {"content_encoding": "aws-chunked", "x_amz_content_sha256": "UNSIGNED-PAYLOAD"},
}


@pytest.mark.parametrize("what", BAD)
async def test_a_body_that_could_be_two_is_refused(what: str) -> None:
    assert (await denied("PUT /lake/out/a", b"1", **BAD[what])).code == "bad_request"


async def test_a_body_without_length_or_without_need_is_refused() -> None:
    for request in (
        Request("PUT", "/lake/out/a", body=once(b"1"), length=None),
        Request("GET", "/lake/data/a", body=once(b"1"), length=1),
    ):
        with pytest.raises(Refused) as refused:
            await service().answer(request, Script())
        assert refused.value.denied.code == "bad_request"


# --- credentials --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secrets",
    [{}, {"key": "no-colon"}, {"key": "a:"}, {"key": ":b"}, {"key": "a:b:"}, {"key": "a b:c"}, {"key": "ä:b"}],
)
async def test_without_good_credentials_nothing_is_asked(secrets: dict[str, str]) -> None:
    found = await denied("GET /lake/data/a", by=service(secrets=secrets))
    assert found.code == "no_secret"
    assert not any(value and value in found.reason for value in secrets.values())


def test_credentials_are_read_and_not_shown() -> None:
    assert credentials("a:b/c\n") == Credentials("a", "b/c")
    assert credentials("a:b:c==") == Credentials("a", "b", "c==")
    assert "b/c" not in repr(credentials("a:b/c:d"))
    with pytest.raises(BadCredentials):
        credentials("nothing")


def test_a_signature_is_that_of_the_published_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's own, for ``GET /test.txt`` of 2013-05-24; its key and secret are public for that."""
    moment = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    who = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    request = Request("GET", "/test.txt", headers=(("range", "bytes=0-9"),))
    origin = Origin("https", "examplebucket.s3.amazonaws.com", 443)
    found = signed(request, origin, "us-east-1", who, EMPTY).header("authorization") or ""
    assert found.endswith("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    assert load()


# --- answers ------------------------------------------------------------------------------------------------------------


async def answered(response: Response, line: str = "GET /lake/data/a") -> tuple[Response, str]:
    found = await service().answer(ask(line), Script([response]))
    return found, (await read(found)).decode()


async def test_headers_of_an_answer_are_those_of_the_object() -> None:
    headers = (
        ("etag", '"1"'), ("content-type", "text/csv"), ("x-amz-meta-by", "me"), ("x-amz-id-2", "host"), ("server", "s"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "arn:aws:kms:eu:123456789012:key/1"), ("set-cookie", "c"),
        ("x-amz-expiration", "rule-id=secret-rule"), ("location", "https://store.example/"), ("x-amz-version-id", "v"),
    )  # fmt: skip
    found, body = await answered(Response(200, headers, once(b"hello"), 5))
    assert (body, found.length, found.status) == ("hello", 5, 200)
    assert [name for name, _ in found.headers] == ["etag", "content-type", "x-amz-meta-by"]


LEAKING = (
    "<Error><Code>SignatureDoesNotMatch</Code><Message>the signature of AKID</Message><AWSAccessKeyId>AKID</AWSAccessKeyId>"
    "<StringToSign>AWS4-HMAC-SHA256</StringToSign><Token-0>token==</Token-0></Error>"
)


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId"])
async def test_who_asks_outside_is_not_told_in_errors(code: str) -> None:
    text = LEAKING.replace("SignatureDoesNotMatch", code)
    found, body = await answered(Response(403, (("content-type", "application/xml"),), once(text.encode()), len(text)))
    assert found.status == 403
    assert f"<Code>{code}</Code>" in body
    assert "The object store itself refused" in body
    assert not re.search("AKID|token|HMAC", body)


async def test_an_error_about_the_object_is_told() -> None:
    text = (
        b"<Error><Code>NoSuchKey</Code><Message>no key for AKID \xc3\xa4&lt;x&gt;</Message><HostId>h</HostId></Error>"
    )
    found, body = await answered(Response(404, (), once(text), len(text)))
    assert (found.status, found.rule, found.secret) == (404, 0, "key")
    assert "<Message>The object store answered: no key for *** ?&lt;x&gt;</Message>" in body


DELETED = (
    '<?xml version="1.0"?>\n<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\n <Deleted><Key>out/a&amp;</Key></Deleted>'
    "<Error><Key>out/AKIE</Key><Code>AccessDenied</Code><Message>User: arn:aws:iam::123456789012:user/ada is not "
    "authorized</Message><HostId>host</HostId></Error><Error><Key>out/c</Key><Code>InternalError</Code><Message>AKIE token==: we fail"
    "</Message></Error></DeleteResult>"
)
REFUSED = "<Error><Code>AccessDenied</Code><Message>arn:aws:iam::1:user/ada AKIE</Message><AWSAccessKeyId>AKIE</AWSAccessKeyId></Error>"
PARTS = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part></CompleteMultipartUpload>"
KEYS = b"<Delete><Object><Key>out/a</Key></Object></Delete>"


async def reported(text: str, line: str, body: bytes = b"", **headers: str) -> tuple[Response, str]:
    script = Script([Response(200, (("x-amz-id-2", "host"),), once(text.encode()), len(text.encode()))])
    found = await service().answer(ask(line, body, **headers), script)
    return found, (await read(found)).decode()


async def test_who_asks_outside_is_not_told_in_errors_for_single_keys() -> None:
    found, body = await reported(DELETED, "POST /lake?delete", KEYS)
    assert (found.status, found.length, found.headers) == (200, len(body), ())
    assert not re.search("arn:aws|ada|HostId|token==|AKIE token", body)
    assert "<Deleted><Key>out/a&amp;</Key></Deleted><Error><Key>out/AKIE</Key><Code>AccessDenied</Code>" in body
    assert "<Message>*** ***: we fail</Message>" in body


@pytest.mark.parametrize(
    ("line", "body", "headers"),
    [
        ("PUT /lake/out/b", b"", {"x_amz_copy_source": "/lake/data/a"}),
        ("PUT /lake/out/b?partNumber=1&uploadId=u", b"", {"x_amz_copy_source": "/lake/data/a"}),
        ("POST /lake/out/b?uploadId=u", PARTS, {}),
    ],
)
async def test_an_error_whose_status_is_no_error_tells_as_little(
    line: str, body: bytes, headers: dict[str, str]
) -> None:
    found, told = await reported(REFUSED, line, body, **headers)
    assert (found.status, not re.search("arn|ada|AKIE", told)) == (200, True)
    assert "<Code>AccessDenied</Code>" in told
    found, told = await reported('<R xmlns="a:b" c="d"><ETag>&quot;1&quot;</ETag></R>', line, body, **headers)
    assert '<ETag>"1"</ETag>' in told
    found, told = await reported("<R><!-- no end", line, body, **headers)
    assert found.status == 502


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"<html>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a><Code>&b;</Code></a>", b"<a>" * 9000]
)
async def test_whatever_an_error_is_it_is_answered(data: bytes) -> None:
    found, body = await answered(Response(500, (), once(data), len(data)))
    assert (found.status, "<Code>Status500</Code>" in body) == (500, True)


async def test_an_error_without_end_is_not_read_to_it() -> None:
    async def endless() -> Body:
        while True:
            yield b"x" * 4096

    found, _ = await answered(Response(500, (), endless(), None))
    assert found.status == 500


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_followed_by_nobody(status: int) -> None:
    headers = (("location", "https://evil.example/"), ("x-amz-bucket-region", "eu-west-1"))
    found, body = await answered(Response(status, headers, once(b"<Error/>"), 8))
    assert (found.status, found.header("location")) == (400, None)
    assert "elsewhere" in body
    head, body = await answered(Response(status, headers, nothing(), 0), "HEAD /lake/data/a")
    assert (head.status, head.header("location"), body) == (400, None, "")


async def test_a_store_that_is_not_there_is_said_as_s3_says_things() -> None:
    class Away(Script):
        async def send(self, origin: Origin, request: Request) -> Response:
            raise Unreachable("store.example, port 443: connection refused.")

    found = await service().answer(ask("GET /lake/data/a"), Away())
    body = (await read(found)).decode()
    assert (found.status, found.header("x-dayfly-unreachable")) == (502, "1")
    assert "<Message>The object store was not reached: store.example, port 443: connection refused.</Message>" in body


async def test_what_is_not_modified_has_no_body() -> None:
    found, body = await answered(Response(304, (("etag", '"1"'),), nothing(), None))
    assert (found.status, found.length, body) == (304, 0, "")


async def test_local_answers_need_no_store() -> None:
    one = service(rule(region="eu-west-1"), rule(bucket="swamp", prefix=""))
    script = Script()
    buckets = (await read(await one.answer(ask("GET /"), script))).decode()
    assert re.findall("<Name>(.*?)</Name>", buckets) == ["lake", "swamp"]
    assert b">eu-west-1</LocationConstraint>" in await read(await one.answer(ask("GET /lake?location"), script))
    head = await one.answer(ask("HEAD /lake"), script)
    assert (head.status, head.header("x-amz-bucket-region")) == (200, "eu-west-1")
    assert (await one.answer(ask("HEAD /lake/data"), script)).status == 404
    assert script.sent == []
    for line in ("HEAD /other", "GET /other?location", "HEAD /lake/dat", "GET /lake/data"):
        assert (await denied(line, by=one)).code == "object_not_listed"


async def test_a_refusal_is_one_of_s3() -> None:
    found = await denied("GET /lake/<secret>")
    assert found.code in CODES
    assert found.host == OBJECTS_HOST
    response = service().refusal(found, 403)
    body = (await read(response)).decode()
    assert response.status == 403
    assert response.length == len(body)
    assert response.header("x-dayfly-denied") == "object_not_listed"
    assert (
        "<Code>AccessDenied</Code><Message>No rule of this sandbox allows GetObject for 's3://lake/&lt;secret&gt;'."
        in body
    )
    slow = service().refusal(Denied("h", 80, "byte_cap", "a.", "b."), 429)
    assert b"SlowDown" in await read(slow)


async def test_hostile_keys_are_quoted_in_what_is_told() -> None:
    found = await denied("GET /lake/%1B%5B31m")
    assert found.code == "bad_request"
    found = await denied("GET /lake/" + "%C3%A4" * 200)
    assert found.reason.isascii()
    assert len(found.reason) < 800


def test_what_there_is_is_told_within_bounds() -> None:
    many = ObjectsRules([(at, rule(prefix=f"{at}/")) for at in range(9)])
    assert many.told.endswith("read, list in s3://lake/4/; and 4 more")
    assert ObjectsRules([(0, WRITE)]).told == "read, write, list in s3://lake/out/"
