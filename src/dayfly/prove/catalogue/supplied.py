"""Where a policy lends something: one prefix of one bucket, one part of an API with a secret that never comes in, one package. Not their
neighbours, and not the secret.

The services are the proof's own, in its own internet: what reaches them beyond that, or otherwise, they have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dayfly.network import PACKAGES_HOST
from dayfly.network.objects import OBJECTS_HOST
from dayfly.prove.probe import Expected, Place, Probe, Property, Severity
from dayfly.prove.services import API, BUCKET, INDEX, OTHER_BUCKET, OTHERS, PACKAGE, PREFIX, STORE, WHEEL

__all__ = ["PROBES"]

_SEEN = ("services of the proof's own", "the proof's own internet", "its name server")

_any = partial(Probe, severity=Severity.CRITICAL, place=Place.SUPPLIED, seen_by=_SEEN)

_OWN, _OTHER = f"/{BUCKET}/{PREFIX}", f"/{BUCKET}/other/secret.txt"

Requests = list[list[str]]


def _objects(short: str, title: str, requests: Requests, **more: Any) -> Probe:
    """Of one bucket's prefix; what is asked for is beyond it."""
    arguments: Mapping[str, Any] = {"host": OBJECTS_HOST, "requests": requests, **more}
    return _any(f"allow-list.objects.{short}", title, Property.ALLOW_LIST, attempt="doors.requested", arguments=arguments, question=3,
                source="BT, K8S, SBE", seconds=40)  # fmt: skip


def _call(short: str, title: str, requests: Requests, **more: Any) -> Probe:
    """Of one part of an API."""
    arguments: Mapping[str, Any] = {"host": API, "requests": requests, "port": 443, "tls": True, **more}
    return _any(f"allow-list.inject.{short}", title, Property.ALLOW_LIST, attempt="doors.requested", arguments=arguments, question=3,
                source="ANT, NEM1439", seconds=40)  # fmt: skip


def _packages(
    short: str, title: str, requests: Requests, host: str = PACKAGES_HOST, asks: tuple[str, ...] = (), **more: Any
) -> Probe:
    arguments: Mapping[str, Any] = {"host": host, "requests": requests, **more}
    return _any(f"packages.{short}", title, Property.PACKAGES, attempt="doors.requested", arguments=arguments, asks=asks, source="SRT, OSH",
                seconds=40)  # fmt: skip


def _leak(short: str, title: str, attempt: str, asks: tuple[str, ...] = (), **arguments: Any) -> Probe:
    return _any(f"credential.injected.{short}", title, Property.CREDENTIAL, attempt=attempt, arguments=arguments, asks=asks, seconds=40,
                source="RB, ANT")  # fmt: skip


def _control(short: str, title: str, of: Property, asks: str, host: str, request: list[str], **more: Any) -> Probe:
    return Probe(f"supplied.{short}", title, of, Severity.HIGH, "doors.requested", {"host": host, "requests": [request], **more}, Place.SUPPLIED,
                 Expected.ALLOWED, _SEEN, "A05", asks=(asks,))  # fmt: skip


_OBJECTS = partial(_control, of=Property.ALLOW_LIST, asks=STORE, host=OBJECTS_HOST)

_DELETED = "<Delete><Object><Key>other/secret.txt</Key></Object><Object><Key>mine/a.txt</Key></Object></Delete>"

_TOPS = ["/etc", "/home", "/root", "/run", "/tmp", "/var/tmp", "/dev/shm"]
"""What anybody inside can write to, and where the authority is: all else is the image, which was there before."""

_ALL = (
    _OBJECTS("read", "Read an object of the lent prefix", request=["GET", f"{_OWN}a.txt"]),
    _OBJECTS("write", "Write an object there", request=["PUT", f"{_OWN}b.txt", "", "mine"]),
    _OBJECTS("list", "List that prefix", request=["GET", f"/{BUCKET}?list-type=2&prefix={PREFIX}"]),
    _OBJECTS("copy", "Copy within it", request=["PUT", f"{_OWN}c.txt", f"x-amz-copy-source: {_OWN}a.txt"]),
    _control("call", "Call the lent part of an API", Property.ALLOW_LIST, API, API, ["GET", "/v1/mine/page"], port=443, tls=True),
    _control("package", "Have the lent package", Property.PACKAGES, INDEX, PACKAGES_HOST, ["GET", f"/python/files/{PACKAGE}/{WHEEL}"]),
    # one prefix of one bucket
    _objects("key", "Read a neighbour's object", [["GET", _OTHER], ["HEAD", _OTHER], ["GET", f"/{BUCKET}/secret.txt"]]),
    _objects("bucket", "Read a neighbour's bucket", [
        ["GET", f"/{OTHER_BUCKET}/{PREFIX}a.txt"], ["GET", f"/{OTHER_BUCKET}?list-type=2&prefix={PREFIX}"], ["HEAD", f"/{OTHER_BUCKET}/secret.txt"],
        ["GET", "/secret.txt", f"Host: {OTHER_BUCKET}.{OBJECTS_HOST}"], ["GET", f"/{PREFIX}a.txt", f"Host: {OTHER_BUCKET}.{OBJECTS_HOST}"],
        ["GET", f"/{BUCKET.upper()}/{PREFIX}a.txt"], ["GET", f"/{BUCKET}.evil/{PREFIX}a.txt"]]),
    _objects("beginning", "Read what only begins like the prefix", [
        ["GET", f"/{BUCKET}/mine-of-others/x"], ["GET", f"/{BUCKET}/mine"], ["GET", f"/{BUCKET}/MINE/a.txt"], ["GET", f"/{BUCKET}/min%C3%A9/a.txt"],
        ["GET", f"/{BUCKET}/mine%00/a.txt"]]),
    _objects("dots", "Leave the prefix by dots, slashes and escapes", [
        ["GET", f"{_OWN}../other/secret.txt"], ["GET", f"{_OWN}%2e%2e/other/secret.txt"], ["GET", f"{_OWN}..%2fother/secret.txt"],
        ["GET", f"{_OWN}%252e%252e/other/secret.txt"], ["GET", f"/{BUCKET}//other/secret.txt"], ["GET", f"/{BUCKET}/./other/secret.txt"],
        ["GET", f"{_OWN}..\\other\\secret.txt"], ["GET", f"/{BUCKET}/mine%2f..%2fother/secret.txt"], ["GET", f"/x/../{BUCKET}/other/secret.txt"]]),
    _objects("list", "List beyond the prefix", [
        ["GET", f"/{BUCKET}?list-type=2"], ["GET", f"/{BUCKET}?list-type=2&prefix="], ["GET", f"/{BUCKET}?list-type=2&prefix=other/"],
        ["GET", f"/{BUCKET}?list-type=2&prefix=mine"], ["GET", f"/{BUCKET}?list-type=2&prefix=mine/&prefix=other/"],
        ["GET", f"/{BUCKET}?list-type=2&prefix=other/&prefix=mine/"], ["GET", f"/{BUCKET}?prefix=other%2F"],
        ["GET", f"/{BUCKET}?versions&prefix=mine/"], ["GET", f"/{BUCKET}?uploads"]]),
    _objects("settings", "Read or change what a bucket or an object is set to", [
        [method, f"{place}?{what}", "", body] for place in (f"/{BUCKET}", f"{_OWN}a.txt") for what in ("acl", "policy", "tagging", "cors")
        for method, body in (("GET", ""), ("PUT", "<x/>"))]),
    _objects("public", "Make an object everybody's", [
        ["PUT", f"{_OWN}p.txt", "x-amz-acl: public-read", "mine"], ["PUT", f"{_OWN}p.txt", "x-amz-grant-read: uri=\"http://acs.example.com/groups/AllUsers\"", "mine"],
        ["PUT", f"{_OWN}p.txt", "x-amz-website-redirect-location: https://evil.example", "mine"]]),
    _objects("copy", "Copy from a neighbour's, or there", [
        *(["PUT", f"{_OWN}c.txt", f"x-amz-copy-source: {source}"] for source in (
            _OTHER, _OTHER[1:], f"/{OTHER_BUCKET}/{PREFIX}a.txt", f"{_OWN}../other/secret.txt", f"{BUCKET}%2Fother%2Fsecret.txt", f"{_OTHER}?versionId=1",
            f"arn:aws:s3:::{BUCKET}/other/secret.txt")),
        ["PUT", _OTHER, f"x-amz-copy-source: {_OWN}a.txt"]]),
    _objects("write", "Write, change or remove a neighbour's", [
        ["PUT", _OTHER, "", "mine"], ["DELETE", _OTHER], ["POST", _OTHER, "", "mine"], ["PUT", f"/{BUCKET}"], ["DELETE", f"/{BUCKET}"],
        ["PUT", f"/{OTHER_BUCKET}/{PREFIX}a.txt", "", "mine"], ["POST", f"/{BUCKET}?delete", "Content-Type: application/xml", _DELETED]]),
    _objects("parts", "Write a neighbour's in parts", [
        ["POST", f"{_OTHER}?uploads"], ["PUT", f"{_OTHER}?partNumber=1&uploadId=1", "", "mine"], ["POST", f"{_OTHER}?uploadId=1", "", "<x/>"],
        ["PUT", f"{_OWN}c.txt?partNumber=1&uploadId=1", f"x-amz-copy-source: {_OTHER}"]]),
    _objects("presigned", "Use a signed link", [
        ["GET", f"{_OTHER}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20260101%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Signature=00"],
        ["GET", f"{_OTHER}?AWSAccessKeyId=A&Signature=00&Expires=9999999999"]]),
    *(_objects(f"door.{door}", f"Read a neighbour's object by {title}", [["GET", target]], door=door) for door, title, target in (
        ("absolute", "the proxy", f"http://{OBJECTS_HOST}{_OTHER}"), ("connect", "CONNECT", _OTHER), ("socks", "SOCKS5", _OTHER))),
    _any("allow-list.objects.kept", "Read it behind an allowed request", Property.ALLOW_LIST, attempt="doors.sent_back", asks=(STORE,), question=3,
         arguments={"host": OBJECTS_HOST, "target": f"{_OWN}a.txt", "port": 80, "tls": False,
                    "behind": f"GET {_OTHER} HTTP/1.1\r\nHost: {OBJECTS_HOST}\r\n\r\n"}, source="CC87381, SMK"),
    _any("allow-list.objects.redirect", "Follow the store to another host", Property.ALLOW_LIST, attempt="doors.requested", asks=(STORE,), question=3,
         arguments={"host": OBJECTS_HOST, "requests": [["GET", f"{_OWN}moved"]]}, source="SMK"),
    _any("allow-list.objects.host", "Reach the store itself", Property.ALLOW_LIST, attempt="doors.requested", question=3, seconds=40, source="SMK",
         arguments={"host": STORE, "requests": [["GET", f"{_OWN}a.txt"], ["GET", _OTHER]], "port": 443, "door": "connect", "tls": True}),
    # one part of an API
    _call("path", "Call a neighbour of the lent part, with its secret", [
        ["GET", "/v1/other"], ["GET", "/"], ["GET", "/v1/mine"], ["GET", "/v1/mine-of-others/page"], ["GET", "/V1/MINE/page"]]),
    _call("dots", "Leave the lent part by dots and escapes", [
        ["GET", "/v1/mine/../other"], ["GET", "/v1/mine/%2e%2e/other"], ["GET", "/v1/mine/..%2fother"], ["GET", "/v1/mine/%252e%252e/other"],
        ["GET", "//v1/other"], ["GET", "/v1/mine/..;/other"], ["GET", "/v1/mine\\..\\other"], ["GET", f"https://{API}/v1/other"]]),
    _call("method", "Change what may only be read", [
        *([method, "/v1/mine/page", "", "x"] for method in ("POST", "PUT")), ["DELETE", "/v1/mine/page"], ["PATCH", "/v1/mine/page"],
        ["GET", "/v1/mine/page", "X-HTTP-Method-Override: DELETE"], ["OPTIONS", "/v1/mine/page"]]),
    _call("other-path", "Name another path in a field", [
        ["GET", "/v1/mine/page", f"{name}: /v1/other"] for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri")]),
    _call("host", "Have the secret sent to another host", [
        ["GET", "/v1/mine/page", "Host: denied.example.net"], ["GET", "https://denied.example.net/v1/mine/page"],
        ["GET", "/v1/mine/page", f"Host: {API}\nHost: denied.example.net"]]),
    _call("plain", "Have the secret sent unencrypted", [["GET", "/v1/mine/page"]], port=80, tls=False),
    _call("plain-on-its-port", "Speak unencrypted where TLS is spoken", [["GET", "/v1/mine/page"]], tls=False),
    # the secret
    _leak("sent-back", "Read the secret in an answer that has it", "doors.sent_back", (API,), host=API, target="/v1/mine/page"),
    _leak("own", "Have a field of one's own sent beside it", "doors.sent_back", (API,), host=API, target="/v1/mine/page",
          fields="Authorization: Bearer mine\nX-Api-Key: mine"),
    _leak("memory", "Find a rule's secret in what can be read of any process", "leaks.value_anywhere", reversed_value="{api_key_reversed}",
          files=["environ", "cmdline", "maps"]),
    _leak("store-memory", "Find the store's", "leaks.value_anywhere", reversed_value="{store_key_reversed}", files=["environ", "cmdline", "maps"]),
    _leak("files", "Find a rule's secret in a file", "leaks.value_in_files", reversed_value="{api_key_reversed}", tops=_TOPS),
    _leak("store-files", "Find the store's", "leaks.value_in_files", reversed_value="{store_key_reversed}", tops=_TOPS),
    # one package
    _packages("name", "Have a package that no rule lists", [
        ["GET", "/python/simple/other-package/"], ["GET", "/python/files/other-package/other_package-1.0-py3-none-any.whl"],
        ["GET", f"/python/simple/{PACKAGE}-evil/"], ["GET", f"/python/files/{PACKAGE}-evil/x-1.0-py3-none-any.whl"]]),
    _packages("version", "Have another version of a listed one", [["GET", f"/python/files/{PACKAGE}/{OTHERS['version']}"]], asks=(INDEX,)),
    _packages("source", "Have its source, which runs code of its own when it is installed", [["GET", f"/python/files/{PACKAGE}/{OTHERS['source']}"]],
              asks=(INDEX,)),
    _packages("path", "Leave the package's place", [
        ["GET", f"/python/simple/{PACKAGE}/../other-package/"], ["GET", f"/python/files/{PACKAGE}/../../simple/other-package/"],
        ["GET", f"/python/files/{PACKAGE}/%2e%2e%2fother.whl"], ["GET", "/files/other.whl"], ["GET", "/pypi/other-package/json"],
        ["GET", f"/python/simple/{PACKAGE}%2f..%2fother-package/"]]),
    _packages("upload", "Upload one", [
        ["POST", "/legacy/", "", "x"], ["POST", "/python/simple/", "", "x"], ["PUT", f"/node/{PACKAGE}", "", "{}"],
        ["POST", f"/python/simple/{PACKAGE}/", "", "x"], ["DELETE", f"/python/files/{PACKAGE}/{WHEEL}"]]),
    _packages("other-index", "Have one of another kind of index", [["GET", "/node/left-pad"], ["GET", "/node/@scope%2fname"]]),
    _packages("index", "Reach the index itself", [["GET", "/simple/other-package/"]], host=INDEX, port=443, door="connect", tls=True),
)  # fmt: skip

_OF_EACH_KIND = frozenset(
    [*(f"allow-list.objects.{one}" for one in ("key", "bucket", "dots", "list", "copy", "write", "redirect")),
     *(f"allow-list.inject.{one}" for one in ("path", "method", "host")), "credential.injected.sent-back", "credential.injected.memory",
     "packages.name", "packages.version", "packages.upload"]
)  # fmt: skip
"""In the quick set, with the controls."""

PROBES = tuple(replace(one, quick=one.expected is Expected.ALLOWED or one.id in _OF_EACH_KIND) for one in _ALL)
