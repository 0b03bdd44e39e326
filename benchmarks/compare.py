"""Whole training steps of a network on one core: Trainyard, TensorFlow and PyTorch in turn, several
rounds in one run. Prints medians, bests, ratios and peak memory.

  benchmarks/run.sh compare --model mnistCnn        (installs the peers first)
  benchmarks/run.sh compare --model mnistCnn --precision bfloat16

With bfloat16 PyTorch runs forward under autocast, TensorFlow computes as Keras' mixed_bfloat16 does:
layers on values cast to bfloat16, variables and the loss in float32.

Every measurement is a process of its own, pinned to the same core. Rounds alternate, so that a slow
minute of the machine falls on all of them. On a machine that does other work at the same time, look
at processor time.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Model:
    title: str
    batches: str
    optimizer: str  # Trainyard's, the same as the peers' networks have
    unit: str = "images"
    units_per_example: int = 1


MODELS = {
    "lenet5": Model("LeNet-5", "128,256,512", "sgd"),
    "mnistCnn": Model("MNIST CNN with Adadelta", "32,128,512", "adadelta"),
    "resnet56v2": Model("ResNet-56 v2 with Adam", "64", "adam"),
    "ptbLstm": Model("PTB LSTM", "20,5", "sgd", "words", 30),
}

# Program → script and its variant.
PEERS = {
    "tensorflow": ("peer_tensorflow.py", "graph"),
    "tensorflow xla": ("peer_tensorflow.py", "xla"),
    "pytorch": ("peer_pytorch.py", "contiguous"),
    "pytorch channels_last": ("peer_pytorch.py", "channels_last"),
}

KINDS = {
    "median": "the median step, median of rounds",
    "best": "the fastest step of all rounds",
    "cpu": "the median step's processor time, median of rounds",
}


def run(command, core):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    if done.returncode != 0:
        sys.exit(f"{done.stderr}compare: {' '.join(map(str, command))} ended with {done.returncode}")
    return json.loads(done.stdout)


def measure_trainyard(args, model, batch):
    result = run([args.trainer, "bench", "--model", args.model, "--optimizer", model.optimizer, "--batch", batch, "--threads", "1", "--seconds",
                  str(args.seconds), "--precision", args.precision, "--json"], args.core)
    rate = {kind: 1000 * result["batch"] / result[field] for kind, field in
            (("median", "millisecondsPerStep"), ("best", "bestMillisecondsPerStep"), ("cpu", "cpuMillisecondsPerStep"))}
    return {"version": "", "rate": rate, "maxRssBytes": result["maxRssBytes"], "share": result["gflops"] / result["peakGflops"]}


def measure_peer(args, program, batch):
    script, variant = PEERS[program]
    return run([args.python, HERE / script, "--model", args.model, "--variant", variant, "--batch", batch, "--seconds", str(args.seconds),
                "--precision", args.precision], args.core)


def print_table(title, batches, rows):
    """rows: program → batch → (text of the figure, of the ratio)."""
    print(f"\n{title}")
    print(f"{'':36}" + "".join(f"{'batch ' + batch:>20}" for batch in batches))
    for program, cells in rows.items():
        print(f"{program:36}" + "".join(f"{cells[batch][0]:>12}{cells[batch][1]:>8}" for batch in batches))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="lenet5")
    parser.add_argument("--trainer", default=HERE.parent / "build/release/trainer/trainyard-trainer", help="the trainyard-trainer to measure")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of all programs")
    parser.add_argument("--batches", help="with commas; each model has its own")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"with commas, of: {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write every measurement to this file")
    args = parser.parse_args()
    model = MODELS[args.model]
    batches = (args.batches or model.batches).split(",")
    peers = [peer for peer in args.peers.split(",") if peer]
    for peer in peers:
        if peer not in PEERS:
            sys.exit(f"compare: --peers has {peer!r}, expected some of {', '.join(PEERS)}")

    found = {}  # program → batch → results, one for each round
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        for batch in batches:
            found.setdefault("trainyard", {}).setdefault(batch, []).append(measure_trainyard(args, model, batch))
            for peer in peers:
                found.setdefault(peer, {}).setdefault(batch, []).append(measure_peer(args, peer, batch))

    names = {program: f"{program} {by_batch[batches[0]][0]['version']}" for program, by_batch in found.items()}
    for kind, words in KINDS.items():
        choose = max if kind == "best" else statistics.median
        rates = {program: {batch: choose([one["rate"][kind] for one in results]) for batch, results in by_batch.items()}
                 for program, by_batch in found.items()}
        rows = {names[program]: {batch: (f"{rate * model.units_per_example:.0f}",
                                         "" if program == "trainyard" else f"{rates['trainyard'][batch] / rate:.2f}x")
                                 for batch, rate in by_batch.items()} for program, by_batch in rates.items()}
        print_table(f"{model.title} in {args.precision} on one core, {model.unit}/s by {words}, and how many times as fast Trainyard is", batches, rows)
    memory = {program: {batch: max(one["maxRssBytes"] for one in results) for batch, results in by_batch.items()}
              for program, by_batch in found.items()}
    rows = {names[program]: {batch: (f"{size / 1e6:.0f} MB", "" if program == "trainyard" else f"{memory['trainyard'][batch] / size:.2f}x")
                             for batch, size in by_batch.items()} for program, by_batch in memory.items()}
    print_table(f"{model.title}, most memory resident in the process, and Trainyard's share of it", batches, rows)
    shares = {batch: (f"{100 * statistics.median(one['share'] for one in results):.0f}%", "") for batch, results in found["trainyard"].items()}
    print_table("Trainyard's share of the peak, measured in the same runs", batches, {"trainyard": shares})
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"model": args.model, "precision": args.precision, "found": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
