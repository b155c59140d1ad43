"""smolagents' own interpreter of Python, in this process, with its defaults."""

import sys

from smolagents.local_python_executor import LocalPythonExecutor


def main() -> None:
    executor = LocalPythonExecutor(additional_authorized_imports=[])
    executor.send_tools({})
    sys.stdout.write(executor(sys.stdin.read()).logs)


if __name__ == "__main__":
    main()
