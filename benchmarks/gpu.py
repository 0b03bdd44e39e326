#!/usr/bin/env python3
"""Whole training steps on a GPU beside PyTorch's, in turn: the trainer's bench, PyTorch eager, and PyTorch compiled. Needs a GPU and PyTorch.

    python3 benchmarks/gpu.py --trainer build/release/trainer/trainyard-trainer
"""
import argparse
import json
import shlex
import statistics
import subprocess
import time

import pytorch_networks
import torch

# name, batch, optimizer, whether PyTorch's compiler is tried
NETWORKS = (("lenet5", 512, "sgd", True), ("mnistCnn", 128, "adadelta", True), ("resnet56v2", 128, "adam", True), ("ptbLstm", 20, "sgd", False))


def ours(arguments, model, batch, optimizer):
    command = [*shlex.split(arguments.trainer), "bench", "--model", model, "--batch", str(batch), "--optimizer", optimizer, "--backend", "cuda",
               "--precision", arguments.precision, "--seconds", str(arguments.seconds), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout)["millisecondsPerStep"]


def median_step(step, seconds):
    """In milliseconds. A step ends when its loss is on the host, as the trainer's does."""
    times = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


class Peer:
    """A network's step in PyTorch; `wrap` is torch.compile or nothing."""

    def __init__(self, name, batch, precision, wrap):
        torch.cuda.reset_peak_memory_stats()
        self.step = pytorch_networks.NETWORKS[name](batch, "channels_last", wrap, precision)
        for _ in range(5):
            self.step()
        self.megabytes = torch.cuda.max_memory_reserved() / 1e6


def compare(arguments, name, batch, optimizer, compiles):
    kinds = {"eager": Peer(name, batch, arguments.precision, pytorch_networks.alone)}
    if compiles and not arguments.no_compile:
        kinds["compiled"] = Peer(name, batch, arguments.precision, torch.compile)
    times = {kind: [] for kind in ("ours", *kinds)}
    for _ in range(arguments.rounds):
        times["ours"].append(ours(arguments, name, batch, optimizer))
        for kind, peer in kinds.items():
            times[kind].append(median_step(peer.step, arguments.seconds))
    best = {kind: min(values) for kind, values in times.items()}
    cells = [f"{name}, {batch}", f"{best['ours']:.3f} ms"]
    for kind in ("eager", "compiled"):
        cells += [f"{best[kind]:.3f} ms", f"{best[kind] / best['ours']:.2f}"] if kind in best else ["", ""]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="build/release/trainer/trainyard-trainer", help="the program, or a command line that starts it")
    parser.add_argument("--precision", default="float32", choices=("float32", "tf32", "bfloat16", "float16"))
    parser.add_argument("--networks", default=",".join(name for name, *_ in NETWORKS))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_default_device("cuda")
    for place in (torch.backends.cuda.matmul, torch.backends.cudnn):
        place.allow_tf32 = arguments.precision == "tf32"
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {arguments.precision}\n")
    print("| network, batch | Trainyard | PyTorch | ratio | compiled | ratio |\n|---|---|---|---|---|---|")
    for name, *rest in NETWORKS:
        if name in arguments.networks.split(","):
            compare(arguments, name, *rest)
    print(f"\nThe least median step of {arguments.rounds} rounds in turn; a ratio above 1: Trainyard is faster.")


if __name__ == "__main__":
    main()
