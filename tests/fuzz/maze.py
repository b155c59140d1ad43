"""Something to be found, behind choices that chance alone does not make; and a function of every kind of branch there is."""

from __future__ import annotations


class Treasure(Exception):
    """It was found."""


def walk(data: bytes) -> None:
    """Byte after byte."""
    if data[:1] != b"w":
        return
    if data[1:2] != b"a":
        return
    if data[2:3] != b"y":
        return
    if data[3:4] == b"!":
        _gate(data)


def _gate(data: bytes) -> None:
    if data[4:5] == b"x":
        raise Treasure
    if data == b"open sesame":
        raise Treasure


def every_kind(number: int) -> list[object]:
    found: list[object] = []
    for one in range(number):
        if one % 2:
            found.append(one if one > 2 else -one)
        elif (one and one % 3) or one == 4:
            found.append([x for x in range(one) if x])
    while number > 3:
        number -= 1
    try:
        found.append(1 // (number - 3))
    except ZeroDivisionError:
        found.append(None)
    match number:
        case 3:
            found.append(sorted((3, 1), key=lambda x: x))
        case _:
            found.append({*()})

    def inner() -> int:
        return number

    found.append(inner())
    return found
