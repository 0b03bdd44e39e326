#!/usr/bin/env python3
"""Whole training steps of the presets on one thread and on two of one process, in turn. Standard library only.

    benchmarks/threads.py [--rounds 8] [--seconds 1.5] [--network NAME …] [--precision float32]

A row has the medians of the rounds' median steps, and the median of the rounds' ratios.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETWORKS = {"lenet5": 128, "mnistCnn": 128, "resnet56v2": 64, "ptbLstm": 20}  # name → batch


def step(arguments, network, threads):
    """Milliseconds of the median step."""
    command = [arguments.trainer, "bench", "--model", network, "--batch", NETWORKS[network], "--threads", threads, "--seconds", arguments.seconds,
               "--precision", arguments.precision, "--json"]
    return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)["millisecondsPerStep"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=ROOT / "build/release/trainer/trainyard-trainer")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measurement")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    print("| network, batch | 1 thread | 2 threads | ratio |\n|---|---|---|---|", flush=True)
    for network in arguments.network:
        rounds = [(step(arguments, network, 1), step(arguments, network, 2)) for _ in range(arguments.rounds)]
        one, two = (statistics.median(each) for each in zip(*rounds))
        ratio = statistics.median(first / second for first, second in rounds)
        print(f"| {network}, {NETWORKS[network]} | {one:.2f} ms | {two:.2f} ms | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
