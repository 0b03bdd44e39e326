#!/usr/bin/env python3
"""Measures bfloat16 beside float32: whole training steps of presets, and what networks learn. Standard library only.

    python3 benchmarks/precision.py speed      one core, both precisions in turn, the best of several rounds
    python3 benchmarks/precision.py accuracy   what the presets learn of real digits and text, with several seeds; --devices cuda: on a GPU
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRECISIONS = ("float32", "bfloat16")
PRESETS = (("lenet5", 128), ("mnistCnn", 128), ("resnet56v2", 64), ("ptbLstm", 20))
JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: precision}
spec:
  worker: {replicas: 1}
  training: TRAINING
"""
IMAGES, LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def of_digits(model, optimizer, epochs, train=9000):
    def part(*images):
        return {"images": IMAGES, "labels": LABELS, "range": list(images)}

    return {"model": model, "data": {"format": "idx", "dir": "examples/data/mnist", "train": part(0, train), "eval": part(9000, 10000)},
            "batchSize": 32, "epochs": epochs, "optimizer": optimizer, "checkpoint": {"everySeconds": 0}}


def of_words(epochs=3):
    """As examples/ptb-lstm.yaml, for fewer epochs."""
    def part(begin, end):
        return {"files": ["input.txt"], "fraction": [begin, end]}

    return {"model": {"preset": "ptbLstm"}, "data": {"format": "text", "dir": "examples/data/tinyshakespeare", "tokens": "words", "vocabulary": 10000,
                                                     "train": part(0, 0.9), "eval": part(0.9, 1)},
            "batchSize": 20, "epochs": epochs, "optimizer": {"name": "sgd", "learningRate": 30, "clipNorm": 0.16667}, "checkpoint": {"everySeconds": 0}}


# preset → what it learns
NETWORKS = {
    "lenet5": of_digits({"preset": "lenet5"}, {"name": "momentum", "learningRate": 0.02}, 6),
    "mnistCnn": of_digits({"preset": "mnistCnn"}, {"name": "adadelta", "learningRate": 1.0}, 4),
    "resnet56v2": of_digits({"preset": "resnet56v2", "inputShape": [28, 28, 1]}, {"name": "adam", "learningRate": 0.001}, 4, train=3000),
    "ptbLstm": of_words(),
}


def bench(trainer, model, batch, precision, seconds, isa):
    command = [trainer, "bench", "--model", model, "--batch", str(batch), "--precision", precision, "--seconds", str(seconds), "--json"]
    if precision == "bfloat16":
        command += ["--isa", isa]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def speed(arguments):
    print("| network, batch | float32 | bfloat16 | ratio |")
    print("|---|---|---|---|")
    isas = {}
    for model, batch in PRESETS:
        best = dict.fromkeys(PRECISIONS, float("inf"))
        for _ in range(arguments.rounds):
            for precision in PRECISIONS:
                result = bench(arguments.trainer, model, batch, precision, arguments.seconds, arguments.isa)
                isas[precision] = result["isa"]
                best[precision] = min(best[precision], result["cpuMillisecondsPerStep"])
        wide, narrow = (best[precision] for precision in PRECISIONS)
        print(f"| {model}, {batch} | {wide:.2f} ms | {narrow:.2f} ms | {wide / narrow:.2f} |", flush=True)
    print(f"\nA step's processor time on one core: the least median of {arguments.rounds} rounds in turn; float32 by {isas['float32']}, "
          f"bfloat16 by {isas['bfloat16']}.")


def learn(arguments, job, precision, seed):
    with tempfile.TemporaryDirectory(prefix="trainyard-precision-") as folder:
        output = pathlib.Path(folder) / "out"
        command = [arguments.trainer, "launch", str(job), "--output", str(output), "--progress", "none", "--set", f"training.precision={precision}",
                   "--set", f"training.seed={seed}", "--set", f"training.resources.devices={arguments.devices}"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return json.loads((output / "report.json").read_text())


def accuracy(arguments):
    print("| network | precision | kernels | accuracy by seed | mean | deviation | loss, evaluation | loss, training |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="trainyard-precision-") as folder:
        for network in arguments.network:
            job = pathlib.Path(folder) / "job.yaml"
            job.write_text(JOB.replace("TRAINING", json.dumps(NETWORKS[network])))
            for precision in arguments.precision:
                reports = [learn(arguments, job, precision, seed) for seed in range(1, arguments.seeds + 1)]
                values = [report["eval"]["accuracy"] for report in reports]
                losses = statistics.mean(report["eval"]["loss"] for report in reports)
                last = statistics.mean(report["lastLoss"] for report in reports)
                print(f"| {network} | {precision} | {reports[0]['kernels']} | {', '.join(f'{value:.4f}' for value in values)} | "
                      f"{statistics.mean(values):.4f} | {statistics.stdev(values):.4f} | {losses:.4f} | {last:.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "accuracy"))
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer/trainyard-trainer"))
    parser.add_argument("--devices", default="cpu", choices=("cpu", "cuda"), help="on which it learns")
    parser.add_argument("--precision", nargs="+", default=list(PRECISIONS), choices=(*PRECISIONS, "tf32"), help="in which it learns")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement")
    parser.add_argument("--isa", default="auto", help="kernels for bfloat16: auto, amx, avx512bf16, avx512 …")
    parser.add_argument("--seeds", type=int, default=5, help="of each network and precision, 2 or more")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="that learns")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds: found {arguments.seeds}, expected 2 or more, whose deviation is printed")
    {"speed": speed, "accuracy": accuracy}[arguments.what](arguments)


if __name__ == "__main__":
    main()
