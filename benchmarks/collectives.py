#!/usr/bin/env python3
"""All-reduce between processes of this machine: Trainyard through shared memory and over gRPC, and torch.distributed's gloo, in turn.

  benchmarks/run.sh collectives [--ranks 2 4] [--bytes 65536 1048576 16777216] [--rounds 3]

Each program sums the same sizes with the same number of repetitions. One line a size: the median
over all repetitions of a round, then the median of the rounds, and its speed relative to gloo's.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

REPETITIONS = {65536: 500, 1048576: 200, 16777216: 30}


def repetitions(size):
    return REPETITIONS.get(size, max(20, min(1000, (256 << 20) // size)))


def trainyard(trainer, ranks, sizes, network):
    found = {}
    for size in sizes:
        command = [trainer, "bench", "allreduce", "--json", "--ranks", str(ranks), "--bytes", str(size), "--rounds", str(repetitions(size))]
        output = subprocess.run(command + (["--network"] if network else []), check=True, capture_output=True, text=True, timeout=600).stdout
        row = json.loads(output)["rows"][0]
        found[size] = (row["medianMicroseconds"], row["cpuMicroseconds"])
    return found


def gloo_rank(rank, ranks, port, sizes):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    found = {}
    for size in sizes:
        tensor = torch.zeros(size // 4)
        times = []
        count = repetitions(size)
        for repetition in range(-count // 10 - 1, count):
            if repetition == 0:
                cpu = time.process_time()
            start = time.perf_counter()
            dist.all_reduce(tensor)
            if repetition >= 0:
                times.append(time.perf_counter() - start)
        found[size] = (1e6 * statistics.median(times), 1e6 * (time.process_time() - cpu) / count)
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def gloo(ranks, sizes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--sizes", *map(str, sizes), "--gloo"]
    processes = [subprocess.Popen([*command, str(rank), str(ranks), str(port)], env=environment, stdout=subprocess.PIPE, text=True)
                 for rank in range(ranks)]
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("gloo failed")
    return {int(size): tuple(values) for size, values in json.loads(outputs[0]).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="build/release/trainer/trainyard-trainer")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--bytes", "--sizes", dest="sizes", type=int, nargs="+", default=[65536, 1048576, 16777216])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gloo", type=int, nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.gloo:
        return gloo_rank(*args.gloo, args.sizes)
    for ranks in args.ranks:
        programs = {"shared memory": lambda: trainyard(args.trainer, ranks, args.sizes, network=False),
                    "gRPC": lambda: trainyard(args.trainer, ranks, args.sizes, network=True),
                    "gloo": lambda: gloo(ranks, args.sizes)}
        found = {name: [] for name in programs}
        for _ in range(args.rounds):
            for name, measure in programs.items():
                found[name].append(measure())
        print(f"\nall-reduce of {ranks} ranks, microseconds by the median; times as fast as gloo; processor time of rank 0")
        print(f"{'bytes':>10}" + "".join(f"{name:>30}" for name in programs))
        for size in args.sizes:
            medians = {name: [statistics.median(run[size][i] for run in runs) for i in (0, 1)] for name, runs in found.items()}
            print(f"{size:>10}" + "".join(f"{median:>14.0f} {medians['gloo'][0] / median:>6.2f}x {cpu:>7.0f}" for median, cpu in medians.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
