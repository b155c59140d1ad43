"""The XML that clients send: read within bounds, written anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.http.messages import once
from dayfly.egress.services.objects.documents import BadDocument, collected, document, keys_of, parts_of

XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def listed(*keys: str, more: str = "") -> bytes:
    return f"<Delete {XMLNS}>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}{more}</Delete>".encode()


def test_keys_are_read_and_written_anew() -> None:
    keys, made = keys_of(listed("a/b", "a/&lt;&amp;&gt; c", "ä", more="\n  <Quiet>true</Quiet>\n"))
    assert keys == ["a/b", "a/<&> c", "ä"]
    assert made.startswith(b"<Delete><Object><Key>a/b</Key></Object><Object><Key>a/&lt;&amp;&gt; c</Key>")
    assert made.endswith(b"<Quiet>true</Quiet></Delete>")
    assert keys_of(made) == (keys, made)


@given(st.text(min_size=1, max_size=30))
def test_keys_that_are_read_are_those_that_are_written(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    try:
        keys, made = keys_of(listed(escaped))
    except (BadDocument, UnicodeEncodeError):
        return
    assert keys_of(made)[0] == keys


BOMB = b'<!DOCTYPE Delete [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>'
FILE = b'<!DOCTYPE Delete [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&x;</Key></Object></Delete>'
WRONG = {
    "a bomb": (BOMB, "DTD"),
    "a file of the host": (FILE, "DTD"),
    "no XML": (b"{}", "no XML"),
    "nothing": (b"", "no XML"),
    "half": (b"<Delete><Object>", "no XML"),
    "another root": (b"<Policy/>", "no list of keys"),
    "no keys": (listed(), "0 keys"),
    "many keys": (listed(*map(str, range(1001))), "1001 keys"),
    "a version": (b"<Delete><Object><Key>a</Key><VersionId>1</VersionId></Object></Delete>", "no versions"),
    "two keys in one": (b"<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>", "something else"),
    "something new": (listed("a", more="<Bypass>true</Bypass>"), "something else"),
    "an attribute": (b'<Delete><Object><Key a="b">a</Key></Object></Delete>', "attributes"),
    "another namespace": (b'<Delete xmlns="urn:x"><Object><Key>a</Key></Object></Delete>', "namespace"),
    "deep": (b"<Delete><Object><Key><a/></Key></Object></Delete>", "too deep"),
    "a long text": (listed("a" * 5000), "too long"),
    "spaces without end": (listed(" " * 5000), "too long"),
    "dots": (listed("a/../b"), "dots"),
    "an empty key": (listed(""), "empty"),
    "a control character": (listed("a&#10;b"), "control character"),
    "NUL": (listed("a&#0;b"), "no XML"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused(what: str) -> None:
    data, why = WRONG[what]
    with pytest.raises(BadDocument, match=why):
        keys_of(data)


def test_elements_have_an_end() -> None:
    with pytest.raises(BadDocument, match="too many elements"):
        document(b"<Delete>" + b"<a/>" * 80_001 + b"</Delete>")


def test_parts_are_read_and_written_anew() -> None:
    made = parts_of(
        f"<CompleteMultipartUpload {XMLNS}><Part><ETag>&quot;ab&quot;</ETag><PartNumber>1</PartNumber>"
        "<ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>".encode()
    )
    assert b'<ChecksumCRC32>AAAAAA==</ChecksumCRC32><ETag>"ab"</ETag><PartNumber>1</PartNumber>' in made
    assert parts_of(made) == made


@pytest.mark.parametrize(
    "inner",
    [
        "",
        "<Part/>",
        "<Part><PartNumber>1</PartNumber></Part>",
        "<Part><PartNumber>x</PartNumber><ETag>a</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>a</ETag><ETag>b</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>a</ETag><Acl>public</Acl></Part>",
        "<Piece><PartNumber>1</PartNumber><ETag>a</ETag></Piece>",
    ],
)
def test_what_is_no_part_is_refused(inner: str) -> None:
    with pytest.raises(BadDocument):
        parts_of(f"<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>".encode())


async def test_a_body_is_read_within_its_bound() -> None:
    assert await collected(once(b"ab", b"cd"), 4) == b"abcd"
    with pytest.raises(BadDocument, match="longer than 3 bytes"):
        await collected(once(b"ab", b"cd"), 3)
