"""Draws the generated parts of docs/wire.md from the tables: ``python -m tests.wire.drawing`` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from dayfly.wire import connection, flow, frames, messages, operations, payloads
from dayfly.wire.messages import AGENT, HOST, SEND, TABLE, Row
from dayfly.wire.states import ORDINARY, RECEIVED, SENT, STATES, TRANSITIONS

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _size(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _payload(row: Row) -> str:
    if row.codec == "data":
        return "the bytes; stream in the header"
    if row.codec == "stream":
        return "none; stream in the header"
    fields = ", ".join(f"{name}: {kind.__name__}" for name, kind in row.fields)
    return {"u32": f"u32 {fields.partition(':')[0]}"}.get(row.codec, f"JSON {{{fields}}}" if fields else "none")


def _message(row: Row) -> tuple[str, ...]:
    said = {SEND: "`send`"}.get(row.said_by, f"`{row.said_by}`" if row.said_by != messages.MACHINE else "the machine")
    where = "0" if row.control else "its own"
    meaning = (row.cls.__doc__ or "").splitlines()[0]
    return (str(row.kind), f"**{row.cls.__name__}**", row.sender, where, _payload(row), _size(row.limit), said,
            "yes" if row.numbered else "no", meaning)  # fmt: skip


def message_table() -> str:
    head = ("kind", "message", "sent by", "channel", "payload", "at most", "said by", "numbered", "meaning")
    return table(head, map(_message, TABLE))


def state_diagram(role: str) -> str:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> start"]
    for (whose, state, cls, way), following in TRANSITIONS.items():
        if whose == role:
            lines.append(f"    {state} --> {following}: {cls.__name__} {way}")
    for state in STATES:
        if state in connection.RESUMABLE and state != connection.DETACHED:
            lines.append(f"    {state} --> detached: detach()")
    return "\n".join([*lines, "```"])


def ordinary_table() -> str:
    ways = [(role, way) for role in (HOST, AGENT) for way in (SENT, RECEIVED)]
    rows = ((state, *("yes" if state in ORDINARY[way] else "-" for way in ways)) for state in STATES)
    return table(("state", *(f"{way} by the {role}" for role, way in ways)), rows)


CONSTANTS = (
    (frames, "MAX_PAYLOAD"), (flow, "MAX_CHANNELS"), (flow, "WINDOW"), (flow, "FRAME_COST"), (flow, "MAX_EVENT"),
    (flow, "EVENT_RESERVE"), (flow, "BULK_WINDOW"), (flow, "POOL"), (flow, "MAX_UNCONSUMED"), (flow, "MIN_CREDIT"),
    (flow, "MAX_CREDIT"), (flow, "MAX_PINGS"), (flow, "MAX_UNACKED"), (flow, "FAIR_SHARE"), (flow, "MAX_UNACKED_CALLS"),
    (flow, "MAX_UNACKED_ALL"), (connection, "MAX_HELD"), (payloads, "MAX_DEPTH"), (messages, "FRAME_ITEMS"),
)  # fmt: skip
COUNTS = {"MAX_CHANNELS", "MAX_PINGS", "MAX_DEPTH", "FRAME_ITEMS"}


def _reason(module: object, name: str) -> str:
    """The text below the constant in its source."""
    source = Path(str(module.__file__)).read_text("utf-8")  # type: ignore[attr-defined]
    found = re.search(rf'^{name} = [^\n]*\n"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    assert found, name
    return " ".join(found[1].split())


def caps_table() -> str:
    rows = (
        (f"`{name}`", str(getattr(module, name)) if name in COUNTS else _size(getattr(module, name)),
         _reason(module, name))
        for module, name in CONSTANTS
    )  # fmt: skip
    return table(("cap", "value", "reason"), rows)


def _shape(shape: dict[str, object]) -> str:
    parts = []
    for name, kinds in shape.items():
        types = kinds if isinstance(kinds, tuple) else (kinds,)
        optional = "?" if type(None) in types else ""
        parts.append(f"{name}{optional}: " + " or ".join(kind.__name__ for kind in types if kind is not type(None)))
    return ", ".join(parts) or "-"


def operation_table() -> str:
    def events(of: dict[str, dict[str, object]]) -> str:
        return "; ".join(f"*{name}* {_shape(shape)}" for name, shape in of.items()) or "-"

    rows = (
        (f"`{op.name}`", op.opener, _shape(op.params), events(op.to_acceptor), events(op.to_opener), _shape(op.finish))
        for op in operations.OPERATIONS.values()
    )
    return table(("operation", "opened by", "params", "events to the acceptor", "events back", "Finish"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "messages": message_table,
    "states of the host": lambda: state_diagram(HOST),
    "states of the agent": lambda: state_diagram(AGENT),
    "other messages": ordinary_table,
    "caps": caps_table,
    "operations": operation_table,
}


def drawn(page: str) -> str:
    """``page`` with every generated part drawn anew."""
    for name, draw in PARTS.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        assert found, name
        assert closed, name
        page = f"{before}{start}\n{draw()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
