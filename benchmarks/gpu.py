#!/usr/bin/env python3
"""Whole training steps on a GPU beside PyTorch's, in turn: the trainer's bench, PyTorch eager, and PyTorch compiled. Needs a GPU and PyTorch.

    python3 benchmarks/gpu.py           the times
    python3 benchmarks/gpu.py memory    the GPU's memory that each process takes
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time

import pytorch_networks
import torch

# name, batch, optimizer, whether PyTorch's compiler is tried
NETWORKS = (("lenet5", 512, "sgd", True), ("mnistCnn", 128, "adadelta", True), ("resnet56v2", 128, "adam", True), ("ptbLstm", 20, "sgd", False))


def our_command(arguments, model, batch, optimizer):
    return [*shlex.split(arguments.trainer), "bench", "--model", model, "--batch", str(batch), "--optimizer", optimizer, "--backend", "cuda",
            "--precision", arguments.precision, "--seconds", str(arguments.seconds), "--json"]


def ours(arguments, *network):
    command = our_command(arguments, *network)
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


def peer(arguments, name, batch, wrap):
    """A network's step in PyTorch, warm; `wrap` is torch.compile or nothing."""
    step = pytorch_networks.NETWORKS[name](batch, "channels_last", wrap, arguments.precision)
    for _ in range(5):
        step()
    return step


def megabytes_of(command):
    """Of the GPU's memory, all that a process takes while it trains."""
    before = least = torch.cuda.mem_get_info()[0]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        least = min(least, torch.cuda.mem_get_info()[0])
        time.sleep(0.02)
    return (before - least) / 1e6


def memory(arguments, networks):
    print("| network, batch | Trainyard | PyTorch |\n|---|---|---|")
    for name, batch, optimizer, _ in networks:
        of_peer = [sys.executable, __file__, "peer", "--networks", name, "--precision", arguments.precision, "--seconds", str(arguments.seconds)]
        print(f"| {name}, {batch} | {megabytes_of(our_command(arguments, name, batch, optimizer)):.0f} MB | {megabytes_of(of_peer):.0f} MB |", flush=True)


def compare(arguments, name, batch, optimizer, compiles):
    kinds = {"eager": peer(arguments, name, batch, pytorch_networks.alone)}
    if compiles and not arguments.no_compile:
        kinds["compiled"] = peer(arguments, name, batch, torch.compile)
    times = {kind: [] for kind in ("ours", *kinds)}
    for _ in range(arguments.rounds):
        times["ours"].append(ours(arguments, name, batch, optimizer))
        for kind, step in kinds.items():
            times[kind].append(median_step(step, arguments.seconds))
    best = {kind: min(values) for kind, values in times.items()}
    cells = [f"{name}, {batch}", f"{best['ours']:.3f} ms"]
    for kind in ("eager", "compiled"):
        cells += [f"{best[kind]:.3f} ms", f"{best[kind] / best['ours']:.2f}"] if kind in best else ["", ""]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="speed", choices=("speed", "memory", "peer"), help="peer: PyTorch's steps alone")
    parser.add_argument("--trainer", default="build/release/trainer/trainyard-trainer", help="the program, or a command line that starts it")
    parser.add_argument("--precision", default="float32", choices=("float32", "tf32", "bfloat16"))
    parser.add_argument("--networks", default=",".join(name for name, *_ in NETWORKS))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    networks = [network for network in NETWORKS if network[0] in arguments.networks.split(",")]
    torch.set_default_device("cuda")
    for place in (torch.backends.cuda.matmul, torch.backends.cudnn):
        place.allow_tf32 = arguments.precision == "tf32"
    if arguments.what == "peer":
        for name, batch, *_ in networks:
            median_step(peer(arguments, name, batch, pytorch_networks.alone), arguments.seconds)
        return
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {arguments.precision}\n")
    if arguments.what == "memory":
        memory(arguments, networks)
        return
    print("| network, batch | Trainyard | PyTorch | ratio | compiled | ratio |\n|---|---|---|---|---|---|")
    for network in networks:
        compare(arguments, *network)
    print(f"\nThe least median step of {arguments.rounds} rounds in turn; a ratio above 1: Trainyard is faster.")


if __name__ == "__main__":
    main()
