"""Lock files: exact versions, or a mistake that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dayfly.cli.options import policy_of
from dayfly.errors import InputError
from dayfly.locks import expanded, node_lock, python_lock
from dayfly.network import PackagesRule, parse_network

A, B = "a" * 64, "b" * 64
INTEGRITY = "sha512-" + "A" * 86 + "=="

REQUIREMENTS = f"""\
# made by a tool
--index-url https://index.example.com/simple
NumPy==2.0.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
    # via pandas
colorama==0.4.6 ; sys_platform == 'win32'  # only there
requests[socks]==2.32.0
"""

PYLOCK = f"""\
lock-version = "1.0"
created-by = "test"
[[packages]]
name = "numpy"
version = "2.0.0"
[packages.sdist]
name = "numpy-2.0.0.tar.gz"
hashes = {{sha256 = "{B}"}}
[[packages.wheels]]
name = "numpy-2.0.0-py3-none-any.whl"
hashes = {{sha256 = "{A}"}}
"""

PACKAGE_LOCK = {
    "name": "mine",
    "lockfileVersion": 3,
    "packages": {
        "": {"name": "mine", "dependencies": {"left": "^1.0.0"}},
        "workspace": {"version": "1.0.0"},
        "node_modules/workspace": {"link": True, "resolved": "workspace"},
        "node_modules/left": {
            "version": "1.1.0",
            "integrity": INTEGRITY,
            "resolved": "https://index.example.com/left.tgz",
        },
        "node_modules/left/node_modules/@s/dep": {"version": "2.0.0-rc.1", "integrity": "sha1-xxx"},
        "node_modules/alias": {"name": "real", "version": "3.0.0", "integrity": INTEGRITY},
    },
}


def written(directory: Path, name: str, content: object) -> Path:
    file = directory / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_requirements_are_exact_versions_with_hashes(tmp_path: Path) -> None:
    found = python_lock(written(tmp_path, "requirements.txt", REQUIREMENTS))
    assert found == [f"NumPy==2.0.0 --hash=sha256:{A} --hash=sha256:{B}", "colorama==0.4.6", "requests==2.32.0"]
    parse_network([{"packages": {"python": found}}])


def test_a_pylock_has_wheels_and_sources(tmp_path: Path) -> None:
    assert python_lock(written(tmp_path, "pylock.toml", PYLOCK)) == [
        f"numpy==2.0.0 --hash=sha256:{A} --hash=sha256:{B}"
    ]


def test_a_package_lock_has_what_is_installed_and_not_what_is_there(tmp_path: Path) -> None:
    found = node_lock(written(tmp_path, "package-lock.json", PACKAGE_LOCK))
    assert found == [f"left@1.1.0 {INTEGRITY}", "@s/dep@2.0.0-rc.1", f"real@3.0.0 {INTEGRITY}"]
    parse_network([{"packages": {"node": found}}])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("requirements.txt", "numpy>=2\n", "does not lock numpy"),
        ("requirements.txt", "numpy==2.*\n", "does not lock numpy"),
        ("requirements.txt", "numpy @ https://x.example/numpy.whl\n", "does not lock numpy"),
        ("requirements.txt", "-r other.txt\n", "names no package"),
        ("requirements.txt", "-e .\n", "names no package"),
        ("pylock.toml", "packages = 3 4", "is no lock file"),
        ("pylock.toml", "[[packages]]\nname = 'a'\n", "without a name or a version"),
    ],
)
def test_what_locks_nothing_is_refused(tmp_path: Path, name: str, content: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        python_lock(written(tmp_path, name, content))


@pytest.mark.parametrize("content", ["[]", "{}", "[" * 100_000, "\0", '{"packages": []}'])
def test_what_is_no_package_lock_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError):
        node_lock(written(tmp_path, "package-lock.json", content))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the lock file .*: No such file"):
        python_lock(tmp_path / "requirements.txt")


def test_a_policy_file_may_name_lock_files_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "requirements.txt", REQUIREMENTS)
    written(tmp_path, "package-lock.json", PACKAGE_LOCK)
    policy = written(
        tmp_path,
        "policy.toml",
        '[[network]]\npackages = { python = [{ lock = "requirements.txt" }, "six"], node = [{ lock = "package-lock.json" }] }\n',
    )
    (rule,) = policy_of(policy, image=None, timeout=None, memory=None, cpus=None).network
    assert isinstance(rule, PackagesRule)
    assert rule.packages.python[1:] == ("colorama==0.4.6", "requests==2.32.0", "six")
    assert len(rule.packages.node) == 3


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"network": "none"},
        {"network": [{"host": "a.example.com"}, 3]},
        {"network": [{"packages": 3}]},
        {"network": [{"packages": {"python": "a", "node": [{"lock": 3}, {"lock": "x", "more": 1}]}}]},
    ],
)
def test_what_names_no_lock_file_stays_as_it_is(policy: dict[str, Any], tmp_path: Path) -> None:
    assert expanded(policy, tmp_path) == policy
