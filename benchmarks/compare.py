"""LeNet-5 training steps on one core: Trainyard, TensorFlow and PyTorch in turn, several rounds in one run; medians, bests and ratios.

Run it by benchmarks/run.sh, which installs the peers. Every program is pinned to the same core; rounds alternate, so that a slow minute of the
machine falls on all of them. On a machine that does other work at the same time, look at processor time.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(command, core):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {done.returncode}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=HERE.parent / "build/release/trainer/trainyard-trainer", help="the trainyard-trainer to measure")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--batches", default="128,256,512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write every measurement to this file")
    args = parser.parse_args()

    batches = args.batches.split(",")
    rates = {}  # program -> batch -> {median, best, cpu} in images per second, one for each round
    shares = {batch: [] for batch in batches}
    versions = {}

    def add(program, batch, rate):
        rates.setdefault(program, {}).setdefault(batch, []).append(rate)

    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        for batch in batches:
            result = run([args.trainer, "bench", "--model", "lenet5", "--batch", batch, "--threads", "1", "--seconds", str(args.seconds), "--json"],
                         args.core)
            add("trainyard", batch, {"median": result["itemsPerSecond"], "best": 1000 * result["batch"] / result["bestMillisecondsPerStep"],
                                     "cpu": 1000 * result["batch"] / result["cpuMillisecondsPerStep"]})
            shares[batch].append(result["gflops"] / result["peakGflops"])
        for peer in ("peer_tensorflow.py", "peer_pytorch.py"):
            result = run([args.python, HERE / peer, "--batches", args.batches, "--seconds", str(args.seconds)], args.core)
            for program, by_batch in result["rates"].items():
                versions[program] = result["version"]
                for batch, rate in by_batch.items():
                    add(program, batch, rate)

    for kind, title in (("median", "the median step, median of rounds"), ("best", "the fastest step of all rounds"),
                        ("cpu", "the median step's processor time, median of rounds")):
        choose = max if kind == "best" else statistics.median
        print(f"\nLeNet-5 on one core, images/s by {title}, and how many times as fast Trainyard is")
        print(f"{'':36}" + "".join(f"{'batch ' + batch:>20}" for batch in batches))
        for program, by_batch in rates.items():
            line = f"{program + ' ' + versions.get(program, ''):36}"
            for batch in batches:
                rate = choose([one[kind] for one in by_batch[batch]])
                ratio = choose([one[kind] for one in rates["trainyard"][batch]]) / rate
                line += f"{rate:12.0f}" + ("        " if program == "trainyard" else f"  {ratio:5.2f}x")
            print(line)
    print(f"\n{'trainyard, share of the peak':36}" + "".join(f"{100 * statistics.median(shares[batch]):11.0f}%        " for batch in batches))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rates": rates, "versions": versions, "shares": shares}, indent=2) + "\n")


if __name__ == "__main__":
    main()
