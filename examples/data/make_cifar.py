#!/usr/bin/env python3
"""Writes files in the format of CIFAR-10's binary version, with classes that can be learnt, where the real ones cannot be had.

    python3 examples/data/make_cifar.py DIR [--train 10000] [--test 2000] [--seed 1]

DIR gets data_batch_1.bin .. data_batch_5.bin and test_batch.bin: records of a label byte and 3,072 pixel bytes (red, green and blue plane of
32 x 32, row by row). An image of class c shows a shape (square, disc, cross, stripes or rings, by c
% 5) of a bright or a dark colour (by c // 5). The shape has a random place and size before a
background of another random colour, with noise. So a class cannot be seen in the colour of single
pixels, and survives flips and small shifts. Standard library only; the same seed gives the same
bytes.
"""

import argparse
import pathlib
import random

SIDE = 32
CLASSES = 10


def inside(kind, x, y, radius):
    """Whether the shape covers the point (x, y), measured from its middle."""
    if kind == 0:
        return max(abs(x), abs(y)) <= radius
    if kind == 1:
        return x * x + y * y <= radius * radius
    if kind == 2:
        return min(abs(x), abs(y)) <= radius // 3 and max(abs(x), abs(y)) <= radius
    if kind == 3:
        return max(abs(x), abs(y)) <= radius and y % 4 < 2
    square = x * x + y * y
    return square <= radius * radius and (square < radius * radius // 6 or square > radius * radius // 2)


def record(label, rng):
    bright = label // 5 == 0
    shape = [rng.randrange(170, 256) if bright else rng.randrange(0, 70) for _ in range(3)]
    ground = [rng.randrange(90, 150) for _ in range(3)]
    radius = rng.randrange(7, 12)
    middle_x, middle_y = (rng.randrange(radius, SIDE - radius) for _ in range(2))
    cover = [inside(label % 5, x - middle_x, y - middle_y, radius) for y in range(SIDE) for x in range(SIDE)]
    noise = rng.randbytes(3 * SIDE * SIDE)
    pixels = bytearray()
    for plane in range(3):
        values = (ground[plane], shape[plane])
        start = plane * SIDE * SIDE
        pixels += bytes(min(255, max(0, values[covered] + noise[start + i] % 41 - 20)) for i, covered in enumerate(cover))
    return bytes([label]) + bytes(pixels)


def write(path, count, rng):
    labels = [i % CLASSES for i in range(count)]
    rng.shuffle(labels)
    with open(path, "wb") as file:
        for label in labels:
            file.write(record(label, rng))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=10000, help="images in the five training files together")
    parser.add_argument("--test", type=int, default=2000, help="images in the test file")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.train < 5 or arguments.test < 1:
        parser.error("--train must be at least 5 and --test at least 1")
    arguments.dir.mkdir(parents=True, exist_ok=True)
    for batch in range(5):
        count = arguments.train // 5 + (batch < arguments.train % 5)
        write(arguments.dir / f"data_batch_{batch + 1}.bin", count, random.Random(arguments.seed * 10 + batch))
    write(arguments.dir / "test_batch.bin", arguments.test, random.Random(arguments.seed * 10 + 9))


if __name__ == "__main__":
    main()
