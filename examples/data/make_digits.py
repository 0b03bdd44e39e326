#!/usr/bin/env python3
"""Writes the handwritten digits of mnist/ as PNG files, a folder for each class: how pictures of your own lie.

    python3 examples/data/make_digits.py DIR [--count 10000]

DIR gets the folders 0 to 9 with files such as 7/00000.png, 28 x 28 pixels of 8 bits, grey. The
number in a file's name is that of the record. Standard library only.
"""

import argparse
import gzip
import pathlib
import struct
import zlib

DIGITS = pathlib.Path(__file__).resolve().parent / "mnist"
SIDE = 28


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, height=SIDE, width=SIDE, channels=1):
    """8-bit grey, RGB or RGBA."""
    row = width * channels
    raw = b"".join(b"\0" + pixels[row * y : row * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def digits():
    """(pixels, label) of each digit."""
    with gzip.open(DIGITS / "t10k-images-idx3-ubyte.gz") as file:
        images = file.read()[16:]
    with gzip.open(DIGITS / "t10k-labels-idx1-ubyte.gz") as file:
        labels = file.read()[8:]
    return [(images[SIDE * SIDE * i : SIDE * SIDE * (i + 1)], labels[i]) for i in range(len(labels))]


def write(folder, count):
    for label in range(10):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
    for number, (pixels, label) in enumerate(digits()[:count]):
        (folder / str(label) / f"{number:05}.png").write_bytes(png(pixels))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10000, help="the first so many digits")
    arguments = parser.parse_args()
    write(arguments.dir, arguments.count)


if __name__ == "__main__":
    main()
