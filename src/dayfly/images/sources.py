"""Where this machine's distribution keeps its packages, read from apt's own files. Reading only; pure but for ``host``.

Third-party lists (language vendors, container engines) are never used: only the suites of the distribution itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dayfly.errors import HostError

__all__ = ["Distribution", "Source", "host_distribution", "own_sources", "parse_deb822", "parse_list", "render"]

# Components that hold the packages the recipes name; on Ubuntu most of them are in universe.
_COMPONENTS = {"debian": ("main",), "ubuntu": ("main", "universe")}
_POCKETS = ("", "-updates", "-security")
_ALIASES = re.compile(r"^(?:stable|oldstable|oldoldstable)(?=$|-|/)")
# Files larger than this are no source lists; apt's own are a few kB.
_FILE_CAP = 1 << 20


@dataclass(frozen=True)
class Source:
    """One place of binary packages. ``signed_by`` is apt's field: a keyring's path, fingerprints, or a key block."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None = None


@dataclass(frozen=True)
class Distribution:
    """``id`` is ``debian`` or ``ubuntu``; ``codename`` e.g. ``bookworm``; ``sources`` are all that apt knows here."""

    id: str
    codename: str
    keyring: Path
    sources: tuple[Source, ...]


def host_distribution(root: Path = Path("/")) -> Distribution:
    """What this machine runs. Raises ``HostError`` on anything but Debian and Ubuntu."""
    release = _os_release(root)
    name, codename = release.get("ID", ""), release.get("VERSION_CODENAME", "")
    if name not in _COMPONENTS or not codename:
        raise HostError(
            f"images are built from Debian's or Ubuntu's packages; this is {release.get('PRETTY_NAME', 'something else')}",
            remedy="build on Debian or Ubuntu, with apt configured",
        )
    return Distribution(name, codename, _keyring(root, name), tuple(_host_sources(root)))


def _os_release(root: Path) -> dict[str, str]:
    try:
        lines = (root / "etc/os-release").read_text("utf-8").splitlines()
    except OSError:  # no such file: not a distribution that we know
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _keyring(root: Path, name: str) -> Path:
    for suffix in ("gpg", "pgp"):
        path = root / f"usr/share/keyrings/{name}-archive-keyring.{suffix}"
        if path.exists():
            return path
    raise HostError(
        f"the keyring of {name}'s archive is missing",
        remedy=f"apt-get install {name}-archive-keyring (or ubuntu-keyring)",
    )


def _host_sources(root: Path) -> Iterable[Source]:
    etc = root / "etc/apt"
    parts = sorted((etc / "sources.list.d").glob("*")) if (etc / "sources.list.d").is_dir() else []
    for path in [etc / "sources.list", *parts]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                text = file.read(_FILE_CAP).decode("utf-8", "replace")
        except OSError:  # a list that an ordinary user may not read belongs to somebody's private archive
            continue
        yield from parse_list(text) if path.suffix == ".list" else parse_deb822(text)


def parse_list(text: str) -> list[Source]:
    """Entries of a one-line-style file. Lines that are not understood are left out: apt itself complains of them."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[([^\]]*)\]\s*)?([^\s\[#]\S*)\s+([^\s#]+)([^#]*)", line)
        if match:
            options, uri, suite, components = match.groups()
            found.append(Source((uri,), (suite,), tuple(components.split()), _option(options or "", "signed-by")))
    return found


def _option(options: str, name: str) -> str | None:
    for item in options.split():
        key, _, value = item.partition("=")
        if key.lower().rstrip("+-") == name and value:
            return value.replace(",", " ")
    return None


def parse_deb822(text: str) -> list[Source]:
    """Enabled binary entries of a deb822-style file."""
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        uris, suites, components = (tuple(fields.get(key, "").split()) for key in ("uris", "suites", "components"))
        if uris and suites:
            found.append(Source(uris, suites, components, fields.get("signed-by") or None))
    return found


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.split("\n"):
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t":
            if key:
                fields[key] += "\n" + line
            continue
        key, _, value = line.partition(":")
        key = key.strip().lower()
        fields[key] = value.strip()
    return fields


def own_sources(host: Distribution, suite: str, *, backports: bool = False) -> list[Source]:
    """The distribution's own sources, for ``suite`` (a codename, perhaps another release than the host's).

    Only entries for the host's codename or ``stable`` with the component ``main`` count, signed by the distribution's
    own keyring; if there is none, entries with another key do (a company's mirror). Updates and security suites are
    kept where the host has them. Raises ``HostError`` if nothing is left.
    """
    fitting = [adapted for source in host.sources if (adapted := _adapt(host, source, suite, backports))]
    trusted = [source for source in fitting if _is_own_key(host, source)]
    chosen = [replace(source, signed_by=str(host.keyring)) for source in trusted] or fitting
    if not any(suite in source.suites for source in chosen):
        raise HostError(
            f"apt on this machine knows no source of {host.id}'s {host.codename}",
            remedy="add the distribution's own lines to /etc/apt/sources.list",
        )
    return chosen


def _adapt(host: Distribution, source: Source, suite: str, backports: bool) -> Source | None:
    components = tuple(name for name in _COMPONENTS[host.id] if name in source.components)
    uris = tuple(uri for uri in source.uris if not uri.startswith("cdrom:") and re.fullmatch(r"[!-~]+", uri))
    mine = [_ALIASES.sub(host.codename, name) for name in source.suites]
    suites = [suite + pocket for pocket in _POCKETS if host.codename + pocket in mine]
    if backports and suite in suites:
        suites.append(f"{suite}-backports")
    if not (uris and suites and "main" in components):
        return None
    return Source(uris, tuple(suites), components, source.signed_by)


def _is_own_key(host: Distribution, source: Source) -> bool:
    if source.signed_by is None:
        return True  # whatever apt trusts globally; the distribution's key is demanded of it by the caller
    return Path(source.signed_by).name.startswith(f"{host.id}-archive-")


def render(sources: Iterable[Source]) -> str:
    """A deb822 file for apt's private state."""
    stanzas = []
    for source in sources:
        lines = ["Types: deb", f"URIs: {' '.join(source.uris)}", f"Suites: {' '.join(source.suites)}"]
        lines.append(f"Components: {' '.join(source.components)}")
        if source.signed_by:
            lines.append(
                f"Signed-By: {source.signed_by}" if "\n" not in source.signed_by else f"Signed-By:{source.signed_by}"
            )
        stanzas.append("\n".join(lines))
    return "\n\n".join(stanzas) + "\n"
