"""gVisor's own Python package: a sandbox with its defaults, a home and shared memory, and one command in it."""

import sys

import gvisor


def main() -> None:
    with gvisor.Sandbox(env={"HOME": "/tmp"}, mounts=[gvisor.Mount.tmpfs("/dev/shm")]) as sandbox:
        said, errors = sandbox.exec("python3", "-c", sys.stdin.read())
    sys.stdout.write(said)
    sys.stderr.write(errors)


if __name__ == "__main__":
    main()
