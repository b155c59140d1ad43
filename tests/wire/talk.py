"""A conversation of two honest sides that hypothesis leads, with a record of what each said and heard."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dayfly.wire import flow
from dayfly.wire.connection import LIVE, MAX_HELD, Connection, Received
from dayfly.wire.messages import (
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Message,
    Open,
    Ping,
    Pong,
    Quiesce,
    Quiesced,
    Resume,
)

from .peers import Pair, live, window_of

_PATTERN = bytes((7 * n * n + n // 251) % 256 for n in range(65521)) * 20
SIDES = st.sampled_from(["host", "agent"])
CHUNK = st.integers(1, 200) | st.integers(1, 40_000) | st.just(1 << 30)
SIZE = st.integers(1, 300) | st.integers(1, 60_000)
STREAM = st.integers(0, 2)
PICK = st.integers(0, 1000)


class Side:
    """One application: what it said, what it heard, and what it has not consumed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.said: dict[int, list[Message]] = {0: []}
        self.heard: dict[int, list[Message]] = {0: []}
        self.unconsumed: list[tuple[int, int, int]] = []  # channel, bytes, what they take of the window
        self.mine: set[int] = set()
        self.ended: set[int] = set()  # channels that this side finished, as the acceptor
        self.offset = 0

    def open_channels(self) -> list[int]:
        return [number for number in {*self.said, *self.heard} if self.connection.is_open(number)]

    def say(self, message: Message, channel: int = 0) -> None:
        self.said.setdefault(channel, []).append(message)

    def hear(self, received: Received) -> None:
        if isinstance(received.message, (Credit, Pong, Quiesce, Quiesced, Resume)):
            return
        self.heard.setdefault(received.channel, []).append(received.message)
        if received.cost:
            self.unconsumed.append((received.channel, received.cost, window_of(received.message)))

    def some_bytes(self, size: int) -> bytes:
        start = self.offset % 65521
        self.offset += size
        return _PATTERN[start : start + size]


class Talk(RuleBasedStateMachine):
    """Both sides say whatever they may at the moment; bytes arrive in pieces of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.pair: Pair = live()
        self.sides = {"host": Side(self.pair.host), "agent": Side(self.pair.agent)}

    # --- what they say ---------------------------------------------------------------------------------------------

    @rule(who=SIDES, op=st.sampled_from(["execute", "file.read"]))
    def open(self, who: str, op: str) -> None:
        side = self.sides[who]
        if side.connection.can_open:
            params: dict[str, Any] = {"n": len(side.said)}
            number = side.connection.open(op, params)
            side.mine.add(number)
            side.say(Open(op, params), number)

    @rule(who=SIDES, pick=PICK, stream=STREAM, size=SIZE)
    def data(self, who: str, pick: int, stream: int, size: int) -> None:
        side, number = self._pick(who, pick)
        if number is None or self._has_ended(side, number, stream):
            return
        size = min(size, side.connection.sendable(number))
        if size:
            data = side.some_bytes(size)
            side.connection.send_data(number, stream, memoryview(data) if size % 2 else data)
            side.say(Data(stream, data), number)

    @rule(who=SIDES, pick=PICK, kind=st.sampled_from(["event", "eof", "cancel", "finish", "fail", "goodbye", "ping"]))
    def message(self, who: str, pick: int, kind: str) -> None:
        side, number = self._pick(who, pick)
        if kind in ("goodbye", "ping") and side.connection._may_send:
            self._control(side, Goodbye(str(pick)) if kind == "goodbye" else Ping(pick))
        elif number is not None and side.connection._may_send:
            self._on_channel(side, number, kind, pick)

    def _control(self, side: Side, message: Message) -> None:
        if isinstance(message, Ping):
            if len(side.connection._control.pings) < flow.MAX_PINGS:
                side.connection.send(message)
        elif not side.said[0]:
            self._say(side, message, 0)

    def _on_channel(self, side: Side, number: int, kind: str, pick: int) -> None:
        accepted = number not in side.mine
        stream = pick % 3
        if kind == "event" and side.connection._channels.get(number).credit > 1000:  # type: ignore[union-attr]
            self._say(side, Event("change", {"n": pick}), number)
        elif kind == "eof" and not self._has_ended(side, number, stream):
            self._say(side, Eof(stream), number)
        elif kind == "cancel" and not accepted:
            side.connection.send(Cancel(), number)
            if Cancel() not in side.said[number]:  # the second one is not sent
                side.say(Cancel(), number)
        elif kind in ("finish", "fail") and accepted:
            side.ended.add(number)
            self._say(side, Finish({"n": pick}) if kind == "finish" else Fail("busy", str(pick)), number)

    def _say(self, side: Side, message: Message, number: int) -> None:
        side.connection.send(message, number)
        side.say(message, number)

    def _pick(self, who: str, pick: int) -> tuple[Side, int | None]:
        side = self.sides[who]
        channels = sorted(side.open_channels())
        return side, channels[pick % len(channels)] if channels else None

    def _has_ended(self, side: Side, number: int, stream: int) -> bool:
        return Eof(stream) in side.said.get(number, [])

    # --- what they take --------------------------------------------------------------------------------------------

    @rule(who=SIDES, pick=PICK, part=st.integers(1, 4))
    def consume(self, who: str, pick: int, part: int) -> None:
        """Some message, in any order; data in parts, too."""
        side = self.sides[who]
        if not side.unconsumed:
            return
        index = pick % len(side.unconsumed)
        number, size, cost = side.unconsumed.pop(index)
        if part < 4 and size < cost and size > 4 and not self._is_event(side, number, cost):
            piece = size * part // 4
            side.connection.consume(number, piece)
            side.unconsumed.insert(index, (number, size - piece, cost - piece))
        else:
            side.connection.consume(number, size)

    def _is_event(self, side: Side, number: int, cost: int) -> bool:
        return any(isinstance(m, Event) and window_of(m) == cost for m in side.heard[number])

    @rule(who=SIDES, pick=PICK, up_to=st.sampled_from([0, 1 << 18, flow.BULK_WINDOW, 1 << 25]))
    def raise_window(self, who: str, pick: int, up_to: int) -> None:
        side, number = self._pick(who, pick)
        if number is not None:
            side.connection.raise_window(number, up_to)

    # --- the streams -----------------------------------------------------------------------------------------------

    @rule(who=SIDES)
    def write(self, who: str) -> None:
        self.pair.write(self.sides[who].connection)

    @rule(who=SIDES, size=CHUNK)
    def read(self, who: str, size: int) -> None:
        side = self.sides[who]
        for received in self.pair.read(side.connection, size):
            side.hear(received)

    # --- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_arrives_that_was_not_said_nor_twice_nor_out_of_order(self) -> None:
        for one, other in (("host", "agent"), ("agent", "host")):
            said, heard = self.sides[one].said, self.sides[other].heard
            for number, messages in heard.items():
                assert messages == said[number][: len(messages)]

    @invariant()
    def memory_is_bounded(self) -> None:
        for side in self.sides.values():
            assert side.connection.held <= MAX_HELD
            assert sum(cost for number, _, cost in side.unconsumed if side.connection.is_open(number)) <= (
                flow.MAX_UNCONSUMED
            )

    @invariant()
    def windows_add_up(self) -> None:
        for side in self.sides.values():
            for number, channel in side.connection._channels._open.items():
                waiting = sum(size for n, size, _ in side.unconsumed if n == number)
                assert channel.waiting == waiting
                frames = len(channel.frames) + sum(channel.events.values())
                assert channel.allowance + channel.taken + waiting + frames * flow.FRAME_COST == channel.window

    def teardown(self) -> None:
        """However it went, once both sides read and consume, everything that was said has been heard."""
        for _ in range(200):
            self._everything_arrives()
            if self._is_quiet():
                break
        self.nothing_arrives_that_was_not_said_nor_twice_nor_out_of_order()
        for one, other in (("host", "agent"), ("agent", "host")):
            self._nothing_is_missing(self.sides[one], self.sides[other])

    def _is_quiet(self) -> bool:
        return all(side.connection.state == LIVE and not side.connection.has_output for side in self.sides.values())

    def _everything_arrives(self) -> None:
        for side in self.sides.values():
            self.pair.write(side.connection)
        for side in self.sides.values():
            for received in self.pair.read(side.connection):
                side.hear(received)
            for number, size, _ in side.unconsumed:
                side.connection.consume(number, size)
            side.unconsumed.clear()
        self.windows_add_up()

    def _nothing_is_missing(self, speaker: Side, listener: Side) -> None:
        assert speaker.connection.state == LIVE
        assert not speaker.connection._control.pings
        for number, said in speaker.said.items():
            heard = listener.heard.get(number, [])
            if number not in listener.ended:  # what came after its end is of no interest to the acceptor
                assert len(heard) == len(said), number
        for number in speaker.open_channels():
            assert speaker.connection.sendable(number) > 0


class TalkOverCutStreams(Talk):
    """The same over streams that are cut at any byte, any number of times, and drained and continued in place."""

    @rule()
    def cut(self) -> None:
        self.pair.cut()

    @rule()
    @precondition(lambda self: self.pair.host.state in ("detached", "quiesced"))
    def resume(self) -> None:
        self.pair.host.resume()

    @rule()
    @precondition(lambda self: self.pair.host.state == "live")
    def quiesce(self) -> None:
        self.pair.host.send(Quiesce())

    @rule()
    @precondition(lambda self: self.pair.agent.state == "quiescing")
    def quiesced(self) -> None:
        self.pair.agent.send(Quiesced())

    @invariant()
    def nothing_is_under_way_once_quiesced_has_arrived(self) -> None:
        if self.pair.host.state == "quiesced":
            assert self.pair.agent.state == "quiesced"
            assert not self.pair.to_host
            assert not self.pair.to_agent
            assert not self.pair.host.has_output
            assert not self.pair.agent.has_output
            assert not self.pair.host._ledger._kept

    def _everything_arrives(self) -> None:
        if self.pair.agent.state == "quiescing":
            self.quiesced()
        if self.pair.host.state in ("detached", "quiesced"):
            self.resume()
        super()._everything_arrives()
