from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from dayfly import Sandbox
from tests.client.lodge import Lodge, lodge
from tests.client.room import Landlord
from tests.machine import gvisor_with, image, local_names, short_directory
from tests.server.house import House, house


@pytest.fixture(scope="session", autouse=True)
def smallest() -> None:
    """What most sandboxes of these tests are made of: nothing in them needs more."""
    image("tiny")


@pytest.fixture(scope="package")
def server() -> Iterator[House]:
    """A real one, for all tests of this folder and those below."""
    image("python")
    reach = {"names": local_names(), "private": ["127.0.0.0/8"]}
    with (
        gvisor_with("") as boundary,
        short_directory() as directory,
        house(boundary, directory, network=reach) as running,
    ):
        yield running


@pytest.fixture(scope="module", params=["embedded", "url"])
def over(request: pytest.FixtureRequest) -> Iterator[str]:
    """What makes the sandboxes of a test that says nothing of it: this process, or a server that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "url":
            running: House = request.getfixturevalue("server")
            patch.setenv("DAYFLY_URL", running.url)
            patch.setenv("DAYFLY_API_KEY", running.key())
        yield request.param


@pytest.fixture(scope="session")
def the_lodge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lodge]:
    with lodge(tmp_path_factory.mktemp("lodge")) as running:
        yield running


@pytest.fixture(params=["embedded", "url"])
def landlord(request: pytest.FixtureRequest) -> Landlord:
    """Makes rooms in this process, or at a server. ``embedded_only`` is for what only the first one can show."""
    if request.param == "embedded":
        return Landlord()
    running: Lodge = request.getfixturevalue("the_lodge")
    return running.landlord()


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
