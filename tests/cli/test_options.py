"""From options to a policy, and from text to statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dayfly import InputError, PolicyError
from dayfly.cli.images import default_name
from dayfly.cli.inputs import checked_inputs
from dayfly.cli.options import environment_of, policy_of, rules_of
from dayfly.cli.run import _source
from dayfly.cli.statement import MAX_STATEMENT, check_size, is_complete, statements
from dayfly.limits import MIB


def test_options_change_the_policy_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('image = "python"\n[limits]\nmemory = "256MiB"\nprocesses = 64\n')
    policy = policy_of(file, image=None, timeout=None, memory="512MiB", cpus=2)
    assert (policy.image, policy.limits.memory, policy.limits.processes, policy.limits.cpus) == (
        "python",
        512 * MIB,
        64,
        2,
    )
    assert policy_of(file, image="data", timeout=None, memory=None, cpus=None).image == "data"


def test_more_time_is_not_cut_short_by_cpu_time_or_lifetime() -> None:
    limits = policy_of(None, image=None, timeout=7200, memory=None, cpus=2).limits
    assert limits.run_seconds == 7200
    assert limits.run_cpu_seconds >= 14400
    assert limits.cpu_seconds >= 14400
    assert limits.lifetime_seconds > 7200
    assert policy_of(None, image=None, timeout=5, memory=None, cpus=None).limits.run_cpu_seconds == 60


@pytest.mark.parametrize("text", ["imagee = 'x'", "limits = 3", "[limits]\nmemory = 1", "not toml", "network = 'all'"])
def test_a_wrong_policy_file_is_one_clear_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=f"{file}") as caught:
        policy_of(file, image=None, timeout=None, memory=None, cpus=None)
    assert caught.value.remedy


def test_a_policy_file_that_is_missing_or_huge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        policy_of(tmp_path / "missing", image=None, timeout=None, memory=None, cpus=None)
    (tmp_path / "huge").write_bytes(b"#" * 2**21)
    with pytest.raises(InputError, match="too large"):
        policy_of(tmp_path / "huge", image=None, timeout=None, memory=None, cpus=None)


@pytest.mark.parametrize(("memory", "cpus"), [("lots", None), ("1KiB", None), (None, 0), (None, -1)])
def test_a_wrong_limit_is_refused(memory: str | None, cpus: float | None) -> None:
    with pytest.raises(PolicyError):
        policy_of(None, image=None, timeout=None, memory=memory, cpus=cpus)


def test_a_wrong_limit_is_named_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[limits]\ncpus = 0\n")
    with pytest.raises(PolicyError, match=f"^{file}: limits.cpus "):
        policy_of(file, image=None, timeout=5, memory="1GiB", cpus=None)
    file.write_text("")
    with pytest.raises(PolicyError, match=r"^--cpus .*--memory .*--timeout ") as caught:
        policy_of(file, image=None, timeout=-1, memory="1MiB", cpus=0)
    assert "limits." not in caught.value.message


@pytest.mark.parametrize(
    ("item", "rules"),
    [
        ("api.example.com", [("api.example.com", (443,), "tls")]),
        ("API.Example.com.:8443", [("api.example.com", (8443,), "tls")]),
        ("*.example.com:443,8443", [("*.example.com", (443, 8443), "tls")]),
        ("example.com:80", [("example.com", (80,), "http")]),
        ("example.com:80,443", [("example.com", (443,), "tls"), ("example.com", (80,), "http")]),
    ],
)
def test_a_name_is_allowed_on_its_ports(item: str, rules: list[tuple[str, tuple[int, ...], str]]) -> None:
    assert [(rule.host, rule.ports, rule.protocol) for rule in rules_of(item)] == rules


@pytest.mark.parametrize(
    "item",
    ["", ":443", "a.example.com:", "a.example.com:x", "a.example.com:0", "a.example.com:70000", "a.example.com:443,443", "*",
     "*.com", "10.0.0.1", "[::1]:443", "https://a.example.com", "a.example.com:٤", "a.example.com:-1", "\x1b.example.com"],
)  # fmt: skip
def test_what_cannot_be_allowed_is_told_as_it_was_written(item: str) -> None:
    with pytest.raises(PolicyError, match=r"^--allow") as refused:
        policy_of(None, image=None, timeout=None, memory=None, cpus=None, allow=["api.example.com", item])
    assert refused.value.remedy
    assert refused.value.message.isprintable()


def test_what_the_file_and_the_options_allow_adds_up(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[[network]]\nhost = "db"\nports = [5432]\nprotocol = "postgres"\nprivate = "10.0.0.0/8"\n')

    def hosts(allow: list[str] | None) -> list[str]:
        found = policy_of(file, image=None, timeout=None, memory=None, cpus=None, allow=allow).network
        return [] if found == "none" else [rule.host for rule in found]

    assert hosts(None) == ["db"]
    assert hosts(["api.example.com", "files.example.com"]) == ["db", "api.example.com", "files.example.com"]
    with pytest.raises(PolicyError, match="rules 1 and 2 are both for"):
        hosts(["api.example.com", "api.example.com"])
    file.write_text('network = "none"\n')
    assert hosts(["api.example.com"]) == ["api.example.com"]
    file.write_text('[network]\nhost = "db"\n')
    with pytest.raises(PolicyError, match="neither 'none' nor a list") as caught:
        hosts(["api.example.com"])
    assert "[[network]]" in (caught.value.remedy or "")
    file.write_text('network = "all"\n')
    with pytest.raises(PolicyError, match="neither 'none' nor a list"):
        hosts(["api.example.com"])


def test_a_statement_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="a statement of more than") as caught:
        check_size(MAX_STATEMENT + 1)
    assert caught.value.remedy


def test_environment_items_need_a_name_and_a_value() -> None:
    assert environment_of(["A=b", "C=d=e", "F="]) == {"A": "b", "C": "d=e", "F": ""}
    for item in ("A", "=b"):
        with pytest.raises(InputError, match="KEY=VALUE"):
            environment_of([item])


def test_the_language_comes_from_the_option_or_the_files_name(tmp_path: Path) -> None:
    for name, language in [("a.py", "python"), ("a.js", "javascript"), ("a.sh", "bash"), ("a", "python")]:
        (tmp_path / name).write_text("\ufeff1")
        assert _source(str(tmp_path / name), None, None).language == language
    assert _source(str(tmp_path / "a.py"), None, "bash").language == "bash"
    assert _source(str(tmp_path / "a.py"), None, None).code == "1"


def test_code_comes_from_exactly_one_place(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for file, code in [
        (None, None),
        ("f", "1"),
        (str(tmp_path / "missing"), None),
        (str(tmp_path), None),
        (str(tmp_path / "binary"), None),
    ]:
        with pytest.raises(InputError):
            _source(file, code, None)


def test_inputs_need_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    for place in (tmp_path / "a", tmp_path / "sub" / "a"):
        place.touch()
    monkeypatch.chdir(tmp_path / "sub")
    assert checked_inputs([Path("."), Path("a")], 0) == [tmp_path / "sub", tmp_path / "sub" / "a"]
    for paths in ([tmp_path / "missing"], [tmp_path / "a", tmp_path / "sub" / "a"], [Path("/")]):
        with pytest.raises(InputError, match="--in"):
            checked_inputs(paths, 0)


@pytest.mark.parametrize(
    ("base", "packages", "name"),
    [("data", ["polars"], "data-polars"), ("data", ["apt:gdal-bin", "Foo_Bar>=2"], "data-gdal-bin-foo-bar")],
)
def test_a_derived_image_gets_a_readable_name(base: str, packages: list[str], name: str) -> None:
    assert default_name(base, packages) == name


COMPLETE = [
    "1",
    "a = 1; b = 2",
    "import os",
    "1 +* 2",
    "!ls",
    "%timeit 1",
    "if True: pass\n",
    "def f():\n  return 1\n",
    "\0",
]
INCOMPLETE = [
    "(1,",
    "if True:",
    "def f():\n  return 1",
    "'''text",
    "a = 1 + \\",
    "@decorated",
    "for i in x:\n  try:\n    pass",
]


@pytest.mark.parametrize("text", COMPLETE)
def test_a_whole_statement_is_run(text: str) -> None:
    assert is_complete("python", text.split("\n"))


@pytest.mark.parametrize("text", INCOMPLETE)
def test_half_a_statement_waits_for_the_rest(text: str) -> None:
    assert not is_complete("python", text.split("\n"))


PROGRAM = """x = 1
def f(y):

    z = y + x

    return z
if f(1) == 2:
    print("two")
else:
    print("not two")

text = '''
  a

'''
print(text)
"""


def test_a_program_on_a_pipe_is_cut_where_its_statements_end() -> None:
    found = list(statements("python", iter(PROGRAM.split("\n"))))
    assert [statement.split("\n")[0] for statement in found] == [
        "x = 1", "def f(y):", "if f(1) == 2:", "text = '''", "print(text)",
    ]  # fmt: skip
    compile("\n".join(found), "all", "exec")
    assert "\n".join(found).replace("\n", "") == PROGRAM.replace("\n", "")


def test_a_plain_statement_on_a_pipe_does_not_wait_for_the_next_line() -> None:
    def lines() -> object:
        yield "x = 1"
        raise AssertionError("asked for more")

    assert next(statements("python", lines())) == "x = 1"  # type: ignore[arg-type]


def test_other_languages_on_a_pipe_run_as_one() -> None:
    assert list(statements("bash", iter(["for i in 1 2", "do echo $i", "done", ""]))) == [
        "for i in 1 2\ndo echo $i\ndone\n"
    ]
    assert list(statements("bash", iter(["", " "]))) == []


def test_to_learn_is_a_network_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('network = "learn"\n')
    nothing: dict[str, Any] = {"image": None, "timeout": None, "memory": None, "cpus": None}
    assert policy_of(file, **nothing).network == policy_of(None, **nothing, learn=True).network == "learn"
    assert "network" not in policy_of(None, **nothing).model_fields_set, "what nobody has set is a server's to say"
    for given in ({"learn": True}, {}):
        with pytest.raises(InputError, match="to learn is"):
            policy_of(file, **nothing, allow=["a.example.com"], **given)
