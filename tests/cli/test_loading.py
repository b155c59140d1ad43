"""A command is loaded when it is named, and none waits for what only others need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from dayfly.cli import commands
from dayfly.cli.commands import COMMANDS, CommandGroup
from dayfly.cli.endings import Ending
from tests.cli.leftovers import Dayfly

LOADED = """
import json, sys
sys.argv[1:] = json.loads(sys.argv[1])
from dayfly.cli import main
try: main()
except SystemExit as ending: code = ending.code
sys.stderr.write(json.dumps([code, sorted(name for name in sys.modules if name.startswith("dayfly."))]))
"""


def loaded_by(*arguments: str) -> set[str]:
    """Modules of dayfly that this command line loads; it is to end well."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(arguments)], capture_output=True, text=True, check=True, timeout=100
    )
    code, modules = json.loads(done.stderr)
    assert code == 0, done
    return set(modules)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_is_where_the_table_says(name: str) -> None:
    assert name in getattr(import_module(f"dayfly.cli.{COMMANDS[name]}"), "__all__", ())
    group = CommandGroup(name="dayfly")
    assert name in group.commands
    assert group.commands[name].name == name
    assert group.commands[name] is group.commands[name]


def test_the_help_tells_all_of_them_in_the_tables_order(dayfly: Dayfly) -> None:
    rows = dayfly("--help").stdout.partition("Commands")[2]
    assert re.findall(r"^│ (\w+)", rows, re.MULTILINE) == list(COMMANDS)


def test_a_name_that_is_not_there_is_no_command() -> None:
    known = CommandGroup(name="dayfly").commands
    assert len(known) == len(COMMANDS)
    assert known.get("rnu") is None
    assert "rnu" not in known


def test_a_command_loads_its_own_file_and_no_others() -> None:
    homes = {f"dayfly.cli.{home}" for home in COMMANDS.values()}
    assert loaded_by("--version") & homes == set()
    runs = loaded_by("run", "--help")
    assert runs & homes == {"dayfly.cli.run"}
    assert not {"dayfly.images.builder", "dayfly.images.wheels", "dayfly.server"} & runs
    found = loaded_by("keys", "list", "--help")
    assert found & homes == {"dayfly.cli.keys", "dayfly.cli.serve"}
    assert not {"dayfly.images.builder", "dayfly.client.sandbox", "dayfly.manager"} & found
    assert loaded_by("--help") >= homes


def test_an_interrupt_while_one_is_loaded_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "import_module", interrupted)
    with pytest.raises(SystemExit) as ending:
        CommandGroup(name="dayfly").commands["run"]
    assert ending.value.code == Ending.INTERRUPTED
    assert capsys.readouterr().err == "dayfly: interrupted\n"
