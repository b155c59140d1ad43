"""What comes out of a sandbox and is read by the host: results of runs, what a probe says, and what is shown on a terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from dayfly.cli import printable as screen
from dayfly.cli.printable import LineKeeper, printable
from dayfly.client.commands import Output
from dayfly.egress.services import redaction
from dayfly.egress.services.redaction import Spellings, Stream
from dayfly.prove import program, verdict
from dayfly.prove.program import Program
from dayfly.sandbox import collect, executions
from dayfly.sandbox.collect import ResultReader, TextReader
from dayfly.sandbox.executions import error_of
from dayfly.spec import Result
from dayfly.wire import payloads
from dayfly.wire.errors import RemoteProtocolError
from tests.fuzz.target import JSON_WORDS, MIB, Target, held, may_be_shown, pieces

CAP = 4096


def results(data: bytes) -> None:
    """The same bundles however the stream is cut, or refused both times; what is said of an error is bounded text."""
    sizes, said = data[:2], data[2:]
    assert repr(_read(said, b"")) == repr(_read(said, sizes))
    one, other = TextReader(), TextReader()
    one.feed(said, final=True)
    for piece in pieces(said, sizes):
        other.feed(piece)
    other.feed(b"", final=True)
    assert one.text == other.text


def _read(said: bytes, sizes: bytes) -> tuple[list[Result], bool]:
    reader, found = ResultReader(CAP), list[Result]()
    try:
        for piece in pieces(said, sizes):
            found += reader.feed(piece)
    except RemoteProtocolError as error:
        may_be_shown(str(error))
        return [], True
    for one in found:
        assert len(one.data) <= collect.MAX_MIME_TYPES
        error = error_of(one.metadata)
        assert error is None or max(map(len, (error.name, error.value, error.traceback))) <= executions.MAX_ERROR_CHARS
    return found, False


def record(value: object) -> bytes:
    data = json.dumps(value).encode()
    return len(data).to_bytes(4, "big") + data


_RESULTS = tuple(
    b"\0\3" + one
    for one in (
        record({"data": {"text/plain": "42", "image/png": "iVBO"}, "metadata": {}, "main": True}),
        record(
            {
                "data": {"application/json": {"a": [1, 2.5, None]}},
                "metadata": {"name": "E", "value": [1]},
                "main": False,
            }
        )
        * 2,
        record(
            {"data": {"application/vnd.x+json": [], "text/html": "<b>"}, "metadata": {"isolated": True}, "main": True}
        ),
    )
)


class Saying:
    """The probes' program: it says what it says, whatever it is asked."""

    def __init__(self, said: bytes, sizes: bytes) -> None:
        self._said = pieces(said, sizes)

    async def output(self) -> AsyncIterator[Output]:
        for piece in self._said:
            yield Output("stdout", piece)

    async def write_stdin(self, _: str) -> None: ...


def claims(data: bytes) -> None:
    """What a probe's program says is a bounded claim or none, of text that can be written anywhere, and no sign of life."""
    sizes, said = data[:2], data[2:]
    held(_asked(Program(Saying(said, sizes))))  # type: ignore[arg-type]


async def _asked(one: Program) -> None:
    for _ in range(3):
        claim = verdict.read_claim(await one.attempt("a", {}, 1.0))
        if claim is not None:
            assert len(claim.reached) <= verdict.MOST_REACHED
            assert 0 <= claim.tried <= verdict.MOST_TRIED
            for text in (*claim.reached, claim.failed):
                assert len(text) <= verdict.MOST_TEXT
                text.encode("utf-8")
    assert await one.alive()
    assert one.failed.isprintable()


_CLAIMS = (
    b'\0\4{"tried": 3, "reached": [], "failed": ""}\n',
    b'\0\4{"tried": 3, "reached": ["10.0.0.1:80", {"a": [1]}]}\n{"tried": 1, "reached": []}\n',
    b'\0\4{"answer": "00"}\n' * 4,
    b'\0\0{"tried": 1, "reached": [' + b"[" * 700 + b"]" * 700 + b"]}\n",
)


def shown(data: bytes) -> None:
    """Nothing that a terminal obeys: of C0 and C1 only what ends a line."""
    text = data.decode("utf-8", "surrogateescape")
    made = printable(text)
    assert all(one.isprintable() or one in "\n\t\r" or not one.isascii() for one in made)
    assert "\x1b" not in made
    assert not any("\x7f" <= one <= "\x9f" for one in made)
    made.encode("utf-8")
    keeper = LineKeeper()
    keeper.feed(text[: len(text) // 2])
    keeper.feed(text[len(text) // 2 :])
    keeper.finish()


SECRET = "s3cr/t+V4lue=="
_SPELLINGS = Spellings(SECRET)


def redacted(data: bytes) -> None:
    """However it is cut, the same comes out, without the value."""
    sizes, said = data[:2], data[2:]
    one, other = Stream(_SPELLINGS), Stream(_SPELLINGS)
    whole = one.feed(said) + one.finish()
    cut = b"".join(map(other.feed, pieces(said, sizes))) + other.finish()
    assert whole == cut
    assert SECRET.encode() not in whole


TARGETS = (
    Target(
        "results", results, (collect, payloads, executions), _RESULTS, memory=8 * MIB, examples=500, words=JSON_WORDS
    ),
    Target("claims", claims, (program, verdict), _CLAIMS, memory=4 * MIB, examples=400, words=JSON_WORDS),
    Target(
        "shown",
        shown,
        (screen,),
        (
            b"plain\r\n",
            b"\x1b[31mred\x1b[0m\x1b]0;title\x07",
            "\u202eabc\u200d\U0001f469\u200d\U0001f4bb".encode(),
            b"\xff\xfe\x9b31m",
        ),
        memory=4 * MIB,
        examples=400,
        words=(b"\x1b[", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae", b"\xe2\x80\x8d", b"\xef\xb8\x8f", b"\r", b"\n"),
    ),
    Target(
        "redaction",
        redacted,
        (redaction,),
        (
            b"\0\3a" + SECRET.encode() + b"\nb",
            b"\0\1s3cr%2Ft%2BV4lue%3D%3D",
            b"\0\2s3cr\\/t",
            b"\0\5czNjci90K1Y0bHVlPT0=",
        ),
        memory=4 * MIB,
        examples=250,
        words=(SECRET.encode(), SECRET.encode()[:7], SECRET.encode()[7:], b"%2F", b"%2f", b"\\/", b"\\u002f", b"&#47;"),
    ),
)
