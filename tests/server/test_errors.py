"""The server's own errors: docs/http.md has the code and the status of each."""

from __future__ import annotations

import re
from pathlib import Path

from dayfly.errors import DayflyError
from dayfly.server import errors

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
NOT_SENT = {"client_gone"}
"""Nobody is there to be told."""


def test_the_page_has_every_code_of_the_server_with_its_status() -> None:
    listed = PAGE.partition("Codes that only the server has:")[2].partition("One answer has another form")[0]
    told = {
        code: int(status)
        for codes, status in re.findall(r"((?:`\w+`,?\s*)+)\((\d+)\)", listed)
        for code in re.findall(r"`(\w+)`", codes)
    }
    own = [one for one in vars(errors).values() if isinstance(one, type) and one.__module__ == errors.__name__]
    assert told == {
        one.code: one.http_status for one in own if issubclass(one, DayflyError) and one.code not in NOT_SENT
    }
