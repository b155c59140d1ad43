"""E2B's own SDK: a sandbox with its defaults, and one run of code in it. The key is in ``E2B_API_KEY``, as they have it."""

import sys

from e2b_code_interpreter import Sandbox


def main() -> None:
    with Sandbox.create() as sandbox:
        done = sandbox.run_code(sys.stdin.read())
    sys.stdout.write("".join(done.logs.stdout))
    sys.stderr.write("".join(done.logs.stderr))
    if done.error:
        sys.stderr.write(f"{done.error.name}: {done.error.value}\n")


if __name__ == "__main__":
    main()
