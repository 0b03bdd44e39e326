"""Draws rooflines: a network each, a dot for each kind of op. Its area is the kind's share of the time.

    roofline_picture.py PICTURE.svg <RESULTS.json

RESULTS.json is a list of what `trainyard-trainer bench --roofline --json` prints.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.lines import Line2D

INK = "#7a8594"  # readable on white and on black
COLORS = ("#3f8fd2", "#d08830", "#4aa564", "#c65b7c", "#8a6fd1", "#a08a3c", "#3aa8a8", "#b0603a")  # of the kinds that take longest
OTHERS = "#9aa4b1"
FLOP_PER_BYTE = (0.05, 300)


def colors_of(results):
    """By op, for those with the largest shares of a step."""
    shares = {}
    for result in results:
        *rows, step = result["roofline"]
        for row in rows:
            if row["gflop"] > 0:
                shares[row["op"]] = max(shares.get(row["op"], 0), row["milliseconds"] / step["milliseconds"])
    return dict(zip(sorted(shares, key=shares.get, reverse=True), COLORS))


def draw(axes, result, colors):
    *rows, step = result["roofline"]
    peak, memory = result["peakGflops"], result["memoryGigabytesPerSecond"]
    ridge = peak / memory
    axes.plot([FLOP_PER_BYTE[0], ridge, FLOP_PER_BYTE[1]], [FLOP_PER_BYTE[0] * memory, peak, peak], color=INK, linewidth=1.4)
    rows = [row for row in rows if row["gflop"] > 0]
    for row in rows:
        axes.scatter(row["flopPerByte"], row["gflops"], s=600 * row["milliseconds"] / step["milliseconds"], color=colors.get(row["op"], OTHERS), alpha=0.7,
                     linewidth=0)
    axes.scatter(step["flopPerByte"], step["gflops"], marker="D", s=36, color=INK, linewidth=0, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*FLOP_PER_BYTE)
    axes.set_ylim(0.5, 3 * peak)
    axes.set_title(f"{result['model']}, batch {result['batch']}: {100 * step['shareOfRoof']:.0f} % of its roof", fontsize=10, color=INK)
    axes.grid(color=INK, alpha=0.2, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main():
    (picture,) = map(pathlib.Path, sys.argv[1:])
    results = json.load(sys.stdin)
    matplotlib.rcParams.update({"font.family": "sans-serif", "font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
                                "xtick.color": INK, "ytick.color": INK, "svg.fonttype": "none", "svg.hashsalt": "trainyard"})
    rows, colors = (len(results) + 1) // 2, colors_of(results)
    figure, grid = pyplot.subplots(rows, 2, figsize=(8.4, 3.0 * rows), squeeze=False, layout="constrained")
    for axes in grid.flat[len(results):]:
        axes.set_visible(False)
    for axes, result in zip(grid.flat, results):
        draw(axes, result, colors)
    dots = [Line2D([], [], marker="o", linestyle="", color=color, label=op) for op, color in colors.items()]
    figure.legend(handles=[*dots, Line2D([], [], marker="D", linestyle="", color=INK, label="the whole step")], loc="outside lower center", ncols=3, frameon=False)
    for axes in grid[-1]:
        axes.set_xlabel("FLOP a byte")
    for axes in grid[:, 0]:
        axes.set_ylabel("GFLOP/s")
    figure.savefig(picture, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
