"""The tool in docs/api.md does what the page says, as it stands there."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from dayfly import EndReason, Sandbox
from tests.client.room import Landlord

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")


def the_pages_tool(opener: Landlord | None) -> Any:
    section = PAGE.partition("## An agent's tool")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    names["Sandbox"] = functools.partial(Sandbox, opener=opener)
    return names["CodeTool"]()


def test_text_and_pictures_come_back_and_state_stays(landlord: Landlord) -> None:
    tool = the_pages_tool(landlord)
    assert tool.run("keep a 1") == [{"type": "text", "text": "(no output)"}]
    assert tool.run("recall a\nwarn w\nshow 2") == [{"type": "text", "text": "1\nw\n2"}]
    assert tool.run("paint") == [
        {"type": "text", "text": "(no output)"},
        {"type": "image", "media_type": "image/png", "data": "cG5n"},
    ]
    assert "NameError" in tool.run("recall b")[0]["text"]
    assert len(landlord.rooms) == 1
    tool.close()
    assert landlord.rooms[0].end_reason is EndReason.STOPPED


def test_an_end_is_told_and_the_next_call_opens_a_new_one(landlord: Landlord) -> None:
    tool = the_pages_tool(landlord)
    assert tool.run("say a\ndie")[0]["text"].startswith("a\nthe sandbox has ended: memory_limit")
    assert tool.run("say b")[0]["text"] == "b"
    landlord.rooms[1].end_reason = EndReason.IDLE_TIMEOUT
    assert (
        tool.run("say c")[0]["text"] == "the sandbox has ended: idle_timeout. Variables and files are gone. Begin anew."
    )
    assert tool.run("say d")[0]["text"] == "d"
    assert len(landlord.rooms) == 3
    tool.close()


@pytest.mark.gvisor
@pytest.mark.usefixtures("over")
def test_it_works_in_a_real_sandbox() -> None:
    tool = the_pages_tool(None)
    code = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); print('drawn')"
    text, picture = tool.run(code)
    assert text["text"] == "drawn"
    assert picture["data"].startswith("iVBORw0KGgo")
    assert "ZeroDivisionError" in tool.run("1 / 0")[0]["text"]
    died = tool.run("import os; os._exit(3)")[0]["text"]
    assert died.endswith("the interpreter ended with exit code 3; variables are lost")
    tool.close()
