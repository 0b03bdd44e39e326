#!/usr/bin/env python3
"""What a parameter server costs on this machine: bytes pushed and pulled a second, and the server's processor time of a byte.

  python3 benchmarks/server_bytes.py [--workers 1 2] [--bytes 1724320 67108864] [--optimizers sgd momentum adam] [--rounds 3]

A byte is a byte of a gradient that the server has applied. Beside its time stands that of a memory
copy of each gradient and the optimizer alone, measured in the same run. Medians of the rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = ("medianMicroseconds", "bytesPerSecond", "serverNanosecondsPerByte", "aloneNanosecondsPerByte", "ratio")


def measure(trainer, workers, size, optimizer, network):
    command = [trainer, "bench", "server", "--json", "--workers", str(workers), "--bytes", str(size), "--optimizer", optimizer]
    output = subprocess.run(command + (["--network"] if network else []), check=True, capture_output=True, text=True, timeout=600).stdout
    return json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer/trainyard-trainer"))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bytes", dest="sizes", type=int, nargs="+", default=[1724320, 67108864])
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "momentum", "adam"])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print("| workers | bytes | optimizer | between them | round, us | pushed and pulled, GB/s | server, ns/byte | copy and optimizer, ns/byte | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for workers in args.workers:
        for size in args.sizes:
            for optimizer in args.optimizers:
                ways = {"shared memory": [], "gRPC": []}
                for _ in range(args.rounds):
                    for name, runs in ways.items():
                        runs.append(measure(args.trainer, workers, size, optimizer, name == "gRPC"))
                for name, runs in ways.items():
                    micros, rate, server, alone, ratio = (statistics.median(run[field] for run in runs) for field in FIELDS)
                    print(f"| {workers} | {size} | {optimizer} | {name} | {micros:.0f} | {rate / 1e9:.2f} | {server:.3f} | {alone:.3f} | {ratio:.2f} |",
                          flush=True)


if __name__ == "__main__":
    main()
