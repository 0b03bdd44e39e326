#!/usr/bin/env python3
"""Writes the handwritten digits of mnist/ as a table: a row of measurements for each digit, as rows of your own lie.

    python3 examples/data/make_table.py FILE.csv [--count 10000]

The columns: height and width of the digit's box in pixels; `lean`, the way that it leans: left,
upright or right; the share of ink in each of 4 x 4 parts of the box, ink11 (top left) to ink44; and
the digit. `lean` is empty where the box is too narrow to tell. Standard library only.
"""

import argparse
import csv
import pathlib

from make_digits import SIDE, digits

PARTS = 4
HEADER = ["height", "width", "lean", *(f"ink{row}{column}" for row in range(1, PARTS + 1) for column in range(1, PARTS + 1)), "digit"]
INK = 128
NARROW = 5


def lean(points):
    """By the mean shift of a row's ink to the right, for each row that it is higher."""
    rows = [y for y, _ in points]
    columns = [x for _, x in points]
    y_mean, x_mean = sum(rows) / len(rows), sum(columns) / len(columns)
    if max(columns) - min(columns) < NARROW:
        return ""
    spread = sum((y - y_mean) ** 2 for y in rows)
    shift = -sum((y - y_mean) * (x - x_mean) for y, x in points) / spread
    return "left" if shift < -0.1 else "right" if shift > 0.25 else "upright"


def measure(pixels):
    points = [divmod(at, SIDE) for at, value in enumerate(pixels) if value >= INK]
    top, bottom = min(y for y, _ in points), max(y for y, _ in points) + 1
    left, right = min(x for _, x in points), max(x for _, x in points) + 1
    height, width = bottom - top, right - left
    counts = [[0] * PARTS for _ in range(PARTS)]
    for y, x in points:
        counts[(y - top) * PARTS // height][(x - left) * PARTS // width] += 1
    return [height, width, lean(points), *(f"{count / len(points):.3f}" for row in counts for count in row)]


def write(path, count):
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(HEADER)
        rows.writerows([*measure(pixels), label] for pixels, label in digits()[:count])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10000, help="the first so many digits")
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    write(arguments.file, arguments.count)


if __name__ == "__main__":
    main()
