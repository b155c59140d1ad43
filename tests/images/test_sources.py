"""Reading apt's own files: what is the distribution's is used, nothing else, and no file can break the reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import HostError
from dayfly.images.sources import Distribution, Source, host_distribution, own_sources, parse_deb822, parse_list, render

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

words = st.text("abcdefgh0123456789-.", min_size=1, max_size=12).filter(lambda text: text[0] not in "-.")
sources = st.builds(
    Source,
    uris=st.lists(words.map(lambda host: f"http://{host}/debian"), min_size=1, max_size=3).map(tuple),
    suites=st.lists(words, min_size=1, max_size=3).map(tuple),
    components=st.lists(words, min_size=1, max_size=3).map(tuple),
    signed_by=st.one_of(st.none(), words.map(lambda name: f"/usr/share/keyrings/{name}.gpg")),
)


def host(*found: Source, codename: str = "bookworm", name: str = "debian") -> Distribution:
    return Distribution(name, codename, Path(KEYRING), found)


def entry(
    *suites: str, uri: str = "http://mirror/debian", key: str | None = KEYRING, parts: tuple[str, ...] = ("main",)
) -> Source:
    return Source((uri,), suites, parts, key)


@given(st.lists(sources, max_size=4))
def test_what_is_rendered_is_read_back_unchanged(given: list[Source]) -> None:
    assert parse_deb822(render(given)) == given


@given(st.text(max_size=400))
def test_no_text_breaks_the_readers(text: str) -> None:
    for source in (*parse_list(text), *parse_deb822(text)):
        assert source.uris
        assert source.suites


@given(sources)
def test_a_one_line_entry_says_the_same_as_its_stanza(source: Source) -> None:
    option = f"[arch=amd64 signed-by={source.signed_by}] " if source.signed_by else ""
    line = f"deb {option}{source.uris[0]} {source.suites[0]} {' '.join(source.components)} # a comment"
    assert parse_list(line) == [Source(source.uris[:1], source.suites[:1], source.components, source.signed_by)]


def test_source_packages_comments_and_disabled_entries_are_left_out() -> None:
    assert parse_list("# deb http://m bookworm main\ndeb-src http://m bookworm main\n\n   # deb\n") == []
    stanza = "Types: deb-src\nURIs: http://m\nSuites: s\nComponents: main"
    assert parse_deb822(stanza) == []
    assert parse_deb822(stanza.replace("deb-src", "deb") + "\nEnabled: no") == []
    assert len(parse_deb822(stanza.replace("deb-src", "deb deb-src"))) == 1


def test_a_key_inside_a_stanza_survives() -> None:
    key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----"
    [source] = parse_deb822(f"Types: deb\nURIs: http://m\nSuites: s\nComponents: main\nSigned-By:{key}\n")
    assert source.signed_by == key
    assert parse_deb822(render([source])) == [source]


def test_third_party_lists_are_not_used() -> None:
    mine = entry("bookworm", "bookworm-updates")
    foreign = [
        entry("bookworm", uri="https://containers/debian", key="/etc/apt/keyrings/containers.asc", parts=("stable",)),
        entry("nodistro", uri="https://language", key="/usr/share/keyrings/language.gpg"),
        entry("bookworm", uri="https://vendor/debian", key="/usr/share/keyrings/vendor.gpg"),
        entry("bookworm-pgdg", uri="https://database", key=None),
    ]
    assert own_sources(host(*foreign, mine), "bookworm") == [mine]


def test_an_entry_without_a_key_must_be_signed_by_the_distribution() -> None:
    [source] = own_sources(host(entry("bookworm", key=None)), "bookworm")
    assert source.signed_by == KEYRING


def test_a_company_mirror_with_its_own_key_is_used_when_it_is_the_only_one() -> None:
    mirror = entry("bookworm", key="/etc/apt/keyrings/company.gpg")
    assert own_sources(host(mirror), "bookworm") == [mirror]


def test_stable_means_the_release_of_this_host() -> None:
    [source] = own_sources(host(entry("stable", "stable-security")), "bookworm")
    assert source.suites == ("bookworm", "bookworm-security")


def test_another_release_is_asked_of_the_same_mirrors() -> None:
    release, security = entry("bookworm", "bookworm-updates"), entry("bookworm-security", uri="http://mirror/security")
    found = own_sources(host(release, security), "bullseye")
    assert [source.suites for source in found] == [("bullseye", "bullseye-updates"), ("bullseye-security",)]


def test_backports_stand_beside_the_release_only() -> None:
    release, security = entry("bookworm"), entry("bookworm-security", uri="http://mirror/security")
    found = own_sources(host(release, security), "bookworm", backports=True)
    assert [source.suites for source in found] == [("bookworm", "bookworm-backports"), ("bookworm-security",)]


def test_on_ubuntu_universe_is_used_too_and_multiverse_is_not() -> None:
    source = entry("noble", key=None, parts=("main", "restricted", "universe", "multiverse"))
    [found] = own_sources(host(source, codename="noble", name="ubuntu"), "noble")
    assert found.components == ("main", "universe")


def test_no_source_is_an_error_with_a_remedy() -> None:
    with pytest.raises(HostError, match="apt on this machine knows no source") as caught:
        own_sources(host(entry("nodistro")), "bookworm")
    assert caught.value.remedy


def make_root(root: Path, release: str) -> Path:
    for name in ("etc/apt/sources.list.d", "usr/share/keyrings"):
        (root / name).mkdir(parents=True)
    (root / "etc/os-release").write_text(release)
    (root / "usr/share/keyrings/debian-archive-keyring.gpg").touch()
    return root


def test_both_kinds_of_files_are_read_and_others_are_not(tmp_path: Path) -> None:
    root = make_root(tmp_path, 'ID=debian\nVERSION_CODENAME="bookworm"\n')
    parts = root / "etc/apt/sources.list.d"
    (root / "etc/apt/sources.list").write_text("deb http://a bookworm main\n")
    (parts / "b.list").write_text("deb http://b bookworm main\n")
    (parts / "c.sources").write_text("Types: deb\nURIs: http://c\nSuites: bookworm\nComponents: main\n")
    (parts / "d.list.disabled").write_text("deb http://d bookworm main\n")
    found = host_distribution(root)
    assert (found.id, found.codename) == ("debian", "bookworm")
    assert [source.uris[0] for source in found.sources] == ["http://a", "http://b", "http://c"]


@pytest.mark.parametrize("release", ["", "ID=fedora\nVERSION_ID=44\n", "ID=debian\n"])
def test_another_distribution_is_refused_with_its_name(tmp_path: Path, release: str) -> None:
    with pytest.raises(HostError, match="Debian's or Ubuntu's"):
        host_distribution(make_root(tmp_path, release))


def test_a_missing_keyring_is_named(tmp_path: Path) -> None:
    root = make_root(tmp_path, "ID=debian\nVERSION_CODENAME=trixie\n")
    (root / "usr/share/keyrings/debian-archive-keyring.gpg").unlink()
    with pytest.raises(HostError, match="keyring"):
        host_distribution(root)
