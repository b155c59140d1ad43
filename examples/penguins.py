"""The demonstration of ``make run``: code as a model might write it, on real data, in a sandbox of its own.

Leaves ``out/chart.png``, ``out/summary.csv`` and ``out/summary.html``, then lets four short attempts at the host and the network
fail. Exits with 0 only if the analysis worked and every attempt was denied.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dayfly import DayflyError, Enforcement, Execution, Sandbox
from dayfly.cli.printable import printable

HERE = Path(__file__).parent
console = Console(highlight=False)


def main() -> int:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(exist_ok=True)
    started = time.monotonic()
    try:
        with Sandbox() as sandbox:
            console.print(f"[dim]sandbox {sandbox.id[:12]} open after {time.monotonic() - started:.2f} s[/]")
            ok = analyse(sandbox, out) and attempts(sandbox)
            tell_limits(sandbox)
    except DayflyError as error:
        console.print(Text(f"dayfly: {error.message}", style="red"))
        console.print(Text(error.remedy or ""))
        return 1
    console.print(f"[dim]{time.monotonic() - started:.1f} s in all; the sandbox is gone[/]")
    return 0 if ok else 1


def analyse(sandbox: Sandbox, out: Path) -> bool:
    """Data in, code run, chart and table out."""
    sandbox.files.upload(HERE / "data" / "penguins.csv")
    execution = sandbox.run_code((HERE / "analysis.py").read_text())
    if not execution.ok:
        console.print(Text(printable(execution.error.traceback if execution.error else repr(execution)), style="red"))
        return False
    show(execution)
    sandbox.files.download("chart.png", out)
    sandbox.files.download("summary.csv", out)
    table = next((result.html for result in execution.results if result.html), None)
    if table is not None:
        # It came out of a sandbox: a browser that opens it must not run anything in it.
        policy = (
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        )
        (out / "summary.html").write_text(f'<!doctype html><meta charset="utf-8">{policy}\n{table}\n')
    console.print(f"[green]saved[/] {', '.join(str(path) for path in sorted(out.iterdir()))}")
    return (out / "chart.png").read_bytes().startswith(b"\x89PNG") and table is not None


def show(execution: Execution) -> None:
    console.print(Text(printable(execution.stdout).rstrip()))
    if execution.text:
        console.print(Text(printable(execution.text)))


def attempts(sandbox: Sandbox) -> bool:
    """What must not work. For the first one there is something to find: a new file in this user's home."""
    token = secrets.token_hex(16)
    with tempfile.NamedTemporaryFile("w", prefix=".dayfly-", dir=Path.home()) as secret:
        secret.write(token)
        secret.flush()
        code = f"HOST_FILE = {secret.name!r}\n" + (HERE / "attempts.py").read_text()
        execution = sandbox.run_code(code, timeout=30)
    leaked = token in execution.stdout
    rows = [line.split("\t") for line in printable(execution.stdout).splitlines() if line.count("\t") == 2]
    for name, verdict, detail in rows:
        line = Text(f"{verdict:8}", style="green" if verdict == "denied" else "bold red")
        line.append(f"{name:32}", style="default").append(detail, style="dim")
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    return execution.ok and not leaked and len(rows) == 4 and all(row[1] == "denied" for row in rows)


def tell_limits(sandbox: Sandbox) -> None:
    watched = [limit.name for limit in sandbox.limits if limit.enforcement is not Enforcement.ENFORCED]
    enforced = len(sandbox.limits) - len(watched)
    more = f"; watched, not enforced by a kernel: {', '.join(watched)}" if watched else ""
    console.print(f"[dim]{enforced} limits enforced{more}[/]")


if __name__ == "__main__":
    sys.exit(main())
