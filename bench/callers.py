"""``python callers.py PORT KEY [PATH CODE]...``: run each code in its sandbox, again and again, and take in what it prints.

As cheaply as can be: those who call a server are on other machines, and are not to be measured.
"""

from __future__ import annotations

import json
import socket
import sys
import threading


def call(port: int, key: str, path: str, code: str, begun: threading.Event) -> None:
    body = json.dumps({"code": code, "timeout": 600})
    head = f"POST {path}/executions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
    head += "accept: application/x-ndjson\r\ncontent-type: application/json\r\nconnection: close\r\n"
    buffer = bytearray(1 << 20)
    while True:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            while connection.recv_into(buffer):
                begun.set()


def main(port: str, key: str, *words: str) -> None:
    begun = []
    for path, code in zip(words[::2], words[1::2], strict=True):
        begun.append(threading.Event())
        threading.Thread(target=call, args=(int(port), key, path, code, begun[-1]), daemon=True).start()
    for event in begun:
        event.wait()
    print("all of them run", flush=True)
    threading.Event().wait()


main(*sys.argv[1:])
