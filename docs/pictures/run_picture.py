"""Draws one run: the training loss of each step, and the accuracy of each evaluation.

    run_picture.py RUN_FOLDER PICTURE.svg

RUN_FOLDER is the --output of `trainyard-trainer launch`; both curves come from its TensorBoard files.
"""

import pathlib
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

INK = "#7a8594"  # readable on white and on black
LOSS, ACCURACY = "#3f8fd2", "#d08830"


def scalars(run):
    """All scalar series of the run, by tag: lists of (step, value)."""
    series = {}
    for folder in sorted((run / "summaries").iterdir()):
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            series.setdefault(tag, []).extend((each.step, each.value) for each in events.Scalars(tag))
    return {tag: sorted(points) for tag, points in series.items()}


def series_of(series, *tags):
    for tag in tags:
        if tag in series:
            return zip(*series[tag])
    raise SystemExit(f"run_picture.py: none of {tags} among the scalars {sorted(series)}")


def main():
    run, picture = map(pathlib.Path, sys.argv[1:])
    series = scalars(run)
    matplotlib.rcParams.update({"font.family": "sans-serif", "font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
                                "xtick.color": INK, "ytick.color": INK, "svg.fonttype": "none", "svg.hashsalt": "trainyard"})
    figure, left = pyplot.subplots(figsize=(7.6, 3.0))
    right = left.twinx()
    left.plot(*series_of(series, "loss", "train/loss"), color=LOSS, linewidth=1.4)
    right.plot(*series_of(series, "eval/accuracy", "evaluation/accuracy", "accuracy"), color=ACCURACY, linewidth=1.4, marker="o", markersize=4)
    left.set_yscale("log")
    left.set_xlabel("step")
    left.set_ylabel("training loss", color=LOSS)
    right.set_ylabel("accuracy, 1,000 test images", color=ACCURACY)
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    left.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
    figure.savefig(picture, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
