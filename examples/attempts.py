# What code that nobody has read might try. Each line says what came of it.
import pathlib
import socket
import urllib.request


def attempt(name, action):
    try:
        print(f"{name}\tREACHED\t{action()!r:.60}")
    except OSError as error:  # the kernel of the sandbox refused: no such file, no such network
        print(f"{name}\tdenied\t{type(error).__name__}: {error}"[:160])
    except Exception as error:  # no wall did that: the demonstration itself is at fault
        print(f"{name}\tFAULT\t{type(error).__name__}: {error}"[:160])


attempt("read a file in the host's home", lambda: pathlib.Path(HOST_FILE).read_text())  # HOST_FILE: set by penguins.py
attempt("open a connection", lambda: socket.create_connection(("192.0.2.1", 443), timeout=5))
attempt("resolve a name", lambda: socket.getaddrinfo("example.com", 443))
attempt(
    "read cloud metadata", lambda: urllib.request.urlopen("http://169.254.169.254/latest/meta-data/", timeout=5).read()
)
