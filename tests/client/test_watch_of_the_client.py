"""A watch tells what callers did, not how dayfly did it, and can be closed at any moment."""

from __future__ import annotations

import threading

from dayfly import Sandbox


def test_a_file_that_is_written_whole_is_created_or_modified_and_nothing_else_is_told() -> None:
    with Sandbox(image="tiny") as sandbox, sandbox.files.watch(".") as watch:
        sandbox.files.write("f", "1")
        sandbox.files.write("f", "2")
        sandbox.files.remove("f")
        changes = []
        while not changes or changes[-1].kind != "removed":
            change = watch.next()
            assert change is not None
            changes.append(change)
    names = {change.path.rpartition("/")[2] for change in changes}
    kinds = [change.kind for change in changes]
    assert names == {"f"}
    assert (kinds[0], kinds[-1], "modified" in kinds, "renamed" in kinds) == ("created", "removed", True, False)


def test_closing_ends_a_next_that_waits_in_another_thread() -> None:
    with Sandbox(image="tiny") as sandbox:
        watch = sandbox.files.watch(".")
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.append(watch.next()))
        waiting.start()
        while watch._inner._waiting is None:
            sandbox.run_code("1")
        watch.close()
        waiting.join(10)
        assert found == [None]
        assert watch.next() is None
        watch.close()


def test_connections_that_nobody_holds_any_more_give_their_places_back() -> None:
    serve = "import socket, threading\nserver = socket.create_server(('127.0.0.1', 9003))\nthreading.Thread(target=lambda: [server.accept() for _ in range(200)], daemon=True).start()"
    with Sandbox(image="tiny") as sandbox:
        assert sandbox.run_code(serve).ok
        for _ in range(120):  # there are places for 48
            sandbox.connect_port(9003)
        assert sandbox.run_code("1").ok
