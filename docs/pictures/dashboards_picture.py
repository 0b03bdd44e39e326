"""Draws a dashboard: each panel in its place, with title, unit, legend and the points of its queries.

    dashboards_picture.py DASHBOARD.json PICTURE.svg

DASHBOARD.json comes from dashboards_data.py.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

INK = "#7a8594"  # readable on white and on black
COLORS = ["#3f8fd2", "#d08830", "#4aa564", "#c4554d", "#8f6fc4", "#3fa7a7", "#b0893f", "#a86a97"]
COLUMNS, ROWS_AN_INCH, INCHES = 24, 3.4, 11.0
UNITS = {"s": "s", "percentunit": "%", "ops": "a second", "reqps": "requests a second"}


def draw_time_series(axes, panel):
    factor = 100 if panel["unit"] == "percentunit" else 1
    for (legend, points), color in zip(panel["series"], COLORS * 4):
        axes.plot([at for at, _ in points], [factor * value for _, value in points], color=color, linewidth=1.2, label=legend)
    if panel["unit"] != "none":
        axes.set_ylim(0, None if any(value for _, points in panel["series"] for _, value in points) else 1)
    axes.locator_params(nbins=4, axis="y")
    axes.set_ylabel(UNITS.get(panel["unit"], ""), fontsize=7)
    axes.grid(color=INK, alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=7, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=6.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, handlelength=1.2, columnspacing=1.0)


def draw_stat(axes, panel):
    axes.axis("off")
    for i, (legend, points) in enumerate(panel["series"]):
        x = (i + 0.5) / len(panel["series"])
        axes.text(x, 0.55, f"{points[-1][1]:.3g}", fontsize=26, ha="center", va="center", color=COLORS[i], transform=axes.transAxes)
        axes.text(x, 0.2, "" if legend == "value" else legend, fontsize=8, ha="center", transform=axes.transAxes)


def main():
    source, picture = map(pathlib.Path, sys.argv[1:])
    panels = json.loads(source.read_text())
    matplotlib.rcParams.update({"font.family": "sans-serif", "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
                                "ytick.color": INK, "svg.fonttype": "none", "svg.hashsalt": "trainyard", "path.simplify_threshold": 0.5})
    rows = max(panel["place"]["y"] + panel["place"]["h"] for panel in panels)
    figure = pyplot.figure(figsize=(INCHES, rows / ROWS_AN_INCH))
    for panel in panels:
        place = panel["place"]
        left, width = place["x"] / COLUMNS, place["w"] / COLUMNS
        top, height = 1 - place["y"] / rows, place["h"] / rows
        axes = figure.add_axes((left + 0.045, top - height + 1.75 / rows, width - 0.06, height - 2.75 / rows))
        axes.set_title(panel["title"], fontsize=9, loc="left", color=INK, fontweight="bold")
        (draw_stat if panel["type"] == "stat" else draw_time_series)(axes, panel)
    figure.savefig(picture, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
