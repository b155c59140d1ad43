"""Hosts that many people share: whoever else has an account there can receive what code sends to them.

Two sources: the list of public suffixes (under which anybody may have a name), and the table here of services where one
name serves all. Both are for advice and for what no rule may say; no security rests on their being complete.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

__all__ = ["everybody_may_register", "shared_by_many"]

_SERVICES: dict[str, tuple[str, ...]] = {
    "an object store": (
        "s3.amazonaws.com", "storage.googleapis.com", "storage.cloud.google.com", "firebasestorage.googleapis.com",
        "blob.core.windows.net", "dfs.core.windows.net", "file.core.windows.net", "r2.cloudflarestorage.com", "r2.dev",
        "digitaloceanspaces.com", "backblazeb2.com", "wasabisys.com", "linodeobjects.com", "scw.cloud",
        "myqcloud.com", "vultrobjects.com", "supabase.co",
    ),
    "a cloud whose services take anybody's account": (
        "amazonaws.com", "amazonaws.com.cn", "googleapis.com", "azure.com", "core.windows.net", "aliyuncs.com",
        "oraclecloud.com", "cloud.ibm.com", "api.cloudflare.com", "api.digitalocean.com",
    ),
    "a place for pastes and small files": (
        "gist.github.com", "gist.githubusercontent.com", "pastebin.com", "paste.ee", "dpaste.com", "dpaste.org", "hastebin.com",
        "paste.rs", "ix.io", "0x0.st", "termbin.com", "sprunge.us", "rentry.co", "privatebin.net", "controlc.com",
        "transfer.sh", "file.io", "gofile.io", "catbox.moe", "temp.sh", "bashupload.com", "filebin.net", "oshi.at",
    ),
    "a host of everybody's repositories": (
        "github.com", "api.github.com", "uploads.github.com", "raw.githubusercontent.com", "codeload.github.com",
        "objects.githubusercontent.com", "githubusercontent.com", "gitlab.com", "bitbucket.org", "codeberg.org", "sr.ht",
        "dev.azure.com", "huggingface.co", "hf.co", "kaggle.com",
    ),
    "a content delivery network": (
        "cloudfront.net", "fastly.net", "fastlylb.net", "akamaized.net", "akamaihd.net", "akamai.net", "edgekey.net",
        "edgesuite.net", "azureedge.net", "azurefd.net", "cdn77.org", "b-cdn.net", "cloudflare.net", "jsdelivr.net", "unpkg.com",
        "esm.sh", "stackpathcdn.com", "kxcdn.com", "gcdn.co", "llnwd.net", "edgecastcdn.net", "cdn.cloudflare.net",
    ),
    "a place where anybody runs programs": (
        "workers.dev", "pages.dev", "on.aws",
        "cloudfunctions.net", "run.app", "appspot.com", "azurewebsites.net", "azure-api.net", "vercel.app", "now.sh",
        "netlify.app", "herokuapp.com", "fly.dev", "onrender.com", "railway.app", "deno.dev", "glitch.me", "repl.co",
        "replit.app", "replit.dev", "github.io", "gitlab.io", "web.app", "firebaseapp.com", "firebaseio.com",
        "pythonanywhere.com", "script.google.com", "script.googleusercontent.com", "val.run", "modal.run", "hf.space",
    ),
    "a tunnel to anybody's machine": (
        "ngrok.io", "ngrok.app", "ngrok.dev", "ngrok-free.app", "ngrok-free.dev", "trycloudflare.com", "loca.lt",
        "localtunnel.me", "serveo.net", "localhost.run", "lhr.life", "pagekite.me", "bore.pub", "devtunnels.ms", "ts.net",
        "pinggy.link", "tunnelmole.net", "zrok.io",
    ),
    "a place that collects requests for anybody": (
        "webhook.site", "requestbin.com", "requestbin.net", "pipedream.net", "hookbin.com", "beeceptor.com", "mockbin.org",
        "requestcatcher.com", "oast.pro", "oast.live", "oast.site", "oast.online", "oast.fun", "oast.me", "interact.sh",
        "oastify.com", "burpcollaborator.net", "dnslog.cn", "canarytokens.com", "httpbin.org", "postman-echo.com", "ntfy.sh",
    ),
    "a service for messages": (
        "hooks.slack.com", "slack.com", "discord.com", "discordapp.com", "api.telegram.org", "webhook.office.com",
        "hooks.zapier.com", "maker.ifttt.com", "api.twilio.com", "api.sendgrid.com", "api.mailgun.net", "smtp.gmail.com",
    ),
    "a service for documents and files": (
        "drive.google.com", "docs.google.com", "sheets.googleapis.com",
        "api.dropboxapi.com", "content.dropboxapi.com", "dropbox.com", "dropboxusercontent.com", "graph.microsoft.com",
        "onedrive.live.com", "sharepoint.com", "api.notion.com", "api.airtable.com", "api.box.com", "upload.box.com",
        "wetransfer.com", "mega.nz", "archive.org", "api.trello.com",
    ),
    "a service where every account has files of its own": (
        "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "api.mistral.ai", "api.cohere.ai",
        "openrouter.ai", "api.replicate.com", "api.together.xyz",
    ),
    "a resolver that forwards names to anybody's server": (
        "dns.google", "cloudflare-dns.com", "one.one.one.one", "mozilla.cloudflare-dns.com", "dns.quad9.net", "doh.opendns.com",
        "dns.nextdns.io", "dns.adguard-dns.com", "doh.pub", "dns.alidns.com",
    ),
}  # fmt: skip
"""What a service is, and its names. A name stands for all names below it too."""

_KINDS = {name: kind for kind, names in _SERVICES.items() for name in names}


def shared_by_many(name: str) -> tuple[str, str] | None:
    """What kind of shared host a canonical ``name`` is or lies below, and under which name; ``None``: none that is known."""
    parts = name.split(".")
    for first in range(len(parts)):
        suffix = ".".join(parts[first:])
        if suffix in _KINDS:
            return _KINDS[suffix], suffix
    public = _suffixes().publicsuffix(name)
    if public is not None and everybody_may_register(public) == "company":
        return "a place where anybody may have a name", public
    return None


def everybody_may_register(name: str) -> Literal["registry", "company"] | None:
    """Whose a public suffix is: a registry's, or a company's that gives names to anybody. ``None``: it is none."""
    if not _suffixes().is_public(name):
        return None
    return "registry" if "." not in name or _registries().is_public(name) else "company"


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import (
        PublicSuffixList,
    )  # 30 ms, for ten thousand lines: only where there are rules to look at

    return PublicSuffixList(accept_unknown=False)


@cache
def _registries() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=False, only_icann=True)
