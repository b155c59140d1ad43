from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from dayfly import Sandbox
from tests.client.room import Landlord


@pytest.fixture
def landlord() -> Landlord:
    return Landlord()


@pytest.fixture
def sandbox(landlord: Landlord) -> Iterator[Sandbox]:
    with Sandbox(opener=landlord) as sandbox:
        yield sandbox


@pytest.fixture
def press_ctrl_c_when() -> Iterator[Callable[[threading.Event], None]]:
    """Sends SIGINT to the main thread once the event is set."""
    threads: list[threading.Thread] = []

    def when(event: threading.Event) -> None:
        def press() -> None:
            assert event.wait(10)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threads.append(threading.Thread(target=press))
        threads[-1].start()

    yield when
    for thread in threads:
        thread.join()
