"""docs/wire.md says what the tables say."""

from __future__ import annotations

import re

from dayfly.wire.frames import HEADER_SIZE, MAX_PAYLOAD, header

from .drawing import PAGE, PARTS, drawn


def test_the_generated_parts_are_up_to_date() -> None:
    page = PAGE.read_text("utf-8")
    assert page == drawn(page), "write them anew: python -m tests.wire.drawing"
    assert page.count("<!-- generated:") == len(PARTS)


def test_the_header_is_laid_out_as_the_page_says() -> None:
    page = PAGE.read_text("utf-8")
    fields = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", page, re.MULTILINE)
    names = {name: (int(start), int(size)) for start, size, name in fields}
    assert list(names) == ["length", "channel", "kind", "stream", "reserved", "number", "ack"]
    assert sum(size for _, size in names.values()) == HEADER_SIZE
    values = {"length": MAX_PAYLOAD, "channel": 2, "kind": 3, "stream": 4, "reserved": 0, "number": 5, "ack": 6}
    frame = header(3, 2, 5, 6, MAX_PAYLOAD, 4)
    for name, (start, size) in names.items():
        assert int.from_bytes(frame[start : start + size], "big") == values[name], name
