"""Pages of listings: what stores answer, and what nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.bucket.listing import Listed, Page, page_of
from dayfly.egress.services.objects.documents import BadDocument

AMAZON = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>lake</Name><Prefix>in/</Prefix><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents><Key>in/a &amp; b</Key><LastModified>2026-10-17T17:50:30.000Z</LastModified><ETag>&quot;fba9&quot;</ETag><Size>434234</Size>
    <Owner><ID>75aa57f09aa0</ID><DisplayName>who</DisplayName></Owner><StorageClass>STANDARD</StorageClass></Contents>
  <Contents><Key> in/b</Key><Size>0</Size></Contents>
</ListBucketResult>"""


def test_a_page_is_keys_sizes_and_where_it_goes_on() -> None:
    token = "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM="
    assert page_of(AMAZON) == Page((Listed("in/a & b", 434234), Listed(" in/b", 0)), token)


def test_the_last_page_has_no_token() -> None:
    assert page_of(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>") == Page((), "")
    assert page_of(b"<ListBucketResult/>") == Page((), "")


def listed(inner: str) -> bytes:
    return f"<ListBucketResult>{inner}</ListBucketResult>".encode()


WRONG = {
    "another document": (b"<Error><Code>NoSuchBucket</Code></Error>", "no listing"),
    "no XML": (b"{}", "no XML"),
    "a DTD": (b"<!DOCTYPE x><ListBucketResult/>", "DTD"),
    "no key": (listed("<Contents><Size>1</Size></Contents>"), "without a key"),
    "no size": (listed("<Contents><Key>a</Key></Contents>"), "without a key or a size"),
    "a size of letters": (listed("<Contents><Key>a</Key><Size>1e3</Size></Contents>"), "size"),
    "a size below nothing": (listed("<Contents><Key>a</Key><Size>-1</Size></Contents>"), "size"),
    "a size beyond everything": (listed(f"<Contents><Key>a</Key><Size>{1 << 50}</Size></Contents>"), "size"),
    "two keys": (listed("<Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents>"), "Key twice"),
    "two tokens": (listed("<NextContinuationToken>a</NextContinuationToken>" * 2), "twice"),
    "more, and not where": (listed("<IsTruncated>true</IsTruncated>"), "two ways"),
    "where, and no more": (listed("<NextContinuationToken>a</NextContinuationToken>"), "two ways"),
    "too many": (listed("<Contents><Key>a</Key><Size>1</Size></Contents>" * 1001), "more than 1000"),
    "too deep": (listed("<a><b><c><d/></c></b></a>"), "deep"),
    "too long a key": (listed(f"<Contents><Key>{'a' * 5000}</Key><Size>1</Size></Contents>"), "too long"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_none_is_refused(wrong: str) -> None:
    data, words = WRONG[wrong]
    with pytest.raises(BadDocument, match=words):
        page_of(data)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"<ListBucketResult>" + data))
def test_whatever_comes_is_a_page_or_refused(data: bytes) -> None:
    try:
        page = page_of(data)
    except BadDocument:
        return
    assert all(one.key and one.size >= 0 for one in page.objects)
