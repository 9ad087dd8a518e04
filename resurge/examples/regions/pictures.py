"""Made-up pictures, in place of cameras: small, grey or coloured, and a function of their number.

A picture is 48 x 48 pixels of one byte each, as base64 text. At a bus stop people who wait are bright squares that stay
where they are, and passers-by are bright squares that move on. At a crossing a traffic light is a round spot in its
colour that stays, and the lights of a car are spots that move.

A camera's pictures are larger. `enlarged` gives one the bytes of those: what is behind the pixels is passed on with
them, and nobody looks at it.
"""

from __future__ import annotations

import base64

import numpy as np

SIZE = 48
CHARACTERS = SIZE * SIZE * 4 // 3  # of a picture as text
RED, YELLOW, GREEN = 1, 2, 3
PHASES_S = {RED: 20, GREEN: 15, YELLOW: 3}  # how long a light shows each colour, in this order


def encoded(pixels: np.ndarray) -> str:
    return base64.b64encode(pixels.astype(np.uint8).tobytes()).decode()


def decoded(picture: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(picture[:CHARACTERS]), np.uint8).reshape(SIZE, SIZE)


def enlarged(picture: str, characters: int) -> str:
    """The same picture, so long as text."""
    return picture.ljust(characters, "A")


def redrawn(picture: str, pixels: np.ndarray) -> str:
    """Other pixels in a picture as large."""
    return encoded(pixels) + picture[CHARACTERS:]


def waiting_at(number: int) -> int:
    """How many people wait when the picture of this number is taken: they come one by one, and a bus takes them."""
    return number % 20 // 2


def of_bus_stop(number: int) -> str:
    """People who wait in rows at the top, a passer-by below them, and some noise."""
    pixels = np.random.default_rng(number).integers(0, 40, (SIZE, SIZE))
    for person in range(waiting_at(number)):
        row, place = divmod(person, 6)
        pixels[2 + 8 * row : 7 + 8 * row, 2 + 8 * place : 7 + 8 * place] = 220
    across = number * 7 % (SIZE - 6)
    pixels[40:45, across : across + 5] = 220
    return encoded(pixels)


def colour_at(number: int) -> int:
    """What a light shows in the second of this number."""
    second = number % sum(PHASES_S.values())
    for colour, seconds in PHASES_S.items():
        if second < seconds:
            return colour
        second -= seconds
    raise AssertionError("a phase for every second")


def of_crossing(number: int) -> str:
    """A round light that stays, a car's red lights that move, a sign that is coloured and not round."""
    pixels = np.zeros((SIZE, SIZE), np.uint8)
    y, x = np.ogrid[:SIZE, :SIZE]
    pixels[(y - 10) ** 2 + (x - 24) ** 2 <= 16] = colour_at(number)
    across = number * 11 % (SIZE - 12)
    pixels[(y - 40) ** 2 + (x - across - 5) ** 2 <= 9] = RED
    pixels[20:23, 2:14] = GREEN
    return encoded(pixels)


def blobs(lit: np.ndarray) -> list[tuple[int, int, int, int, int]]:
    """Connected pixels: (top, left, height, width, pixels), from the top."""
    left, found = {*map(tuple, np.argwhere(lit).tolist())}, []
    while left:
        edge = [min(left)]
        left.discard(edge[0])
        blob = []
        while edge:
            y, x = edge.pop()
            blob.append((y, x))
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if near in left:
                    left.discard(near)
                    edge.append(near)
        rows, columns = [y for y, _ in blob], [x for _, x in blob]
        size = (max(rows) - min(rows) + 1, max(columns) - min(columns) + 1)
        found.append((min(rows), min(columns), *size, len(blob)))
    return found
