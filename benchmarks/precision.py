#!/usr/bin/env python3
"""Measures bfloat16 beside float32: whole training steps of presets, and what networks learn. Standard library only.

    python3 benchmarks/precision.py speed      one core, both precisions in turn, the best of several rounds
    python3 benchmarks/precision.py accuracy   LeNet-5 and a residual network on real digits, with several seeds
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
  training:
    model: MODEL
    data:
      format: idx
      dir: examples/data/mnist
      train: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [0, 9000]}
      eval: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [9000, 10000]}
    batchSize: 32
    epochs: 6
    optimizer: {name: momentum, learningRate: RATE}
    checkpoint: {everySeconds: 0}
"""


def residual_network(blocks=3, filters=16):
    """Pre-activation blocks as in ResNet v2: what lies in memory as bfloat16 goes through sums and batch normalisation again and again."""
    layers = [{"name": "stem", "conv2d": {"filters": filters, "kernelSize": 3, "strides": 2, "padding": "same"}}]
    x = "stem"

    def norm_and_relu(name, inputs):
        layers.append({"name": name, "inputs": [inputs], "batchNormalization": {"momentum": 0.9}})
        layers.append({"name": name + "_relu", "activation": {"function": "relu"}})

    for block in range(blocks):
        for conv in range(2):
            name = f"block{block}_{conv}"
            norm_and_relu(name, x if conv == 0 else layers[-1]["name"])
            layers.append({"name": name + "_conv", "conv2d": {"filters": filters, "kernelSize": 3, "padding": "same"}})
        layers.append({"name": f"block{block}", "inputs": [x, layers[-1]["name"]], "add": {}})
        x = f"block{block}"
    norm_and_relu("norm", x)
    layers += ["globalAveragePool2d", {"dense": {"units": 10}}]
    return {"input": {"shape": [28, 28, 1]}, "layers": layers, "loss": "softmaxCrossEntropy"}


NETWORKS = {"LeNet-5": ({"preset": "lenet5"}, 0.02), "residual": (residual_network(), 0.005)}  # model, learning rate


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
                   "--set", f"training.seed={seed}"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return json.loads((output / "report.json").read_text())


def accuracy(arguments):
    print("| network | precision | kernels | accuracy by seed | mean | deviation | loss, evaluation | loss, training |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="trainyard-precision-") as folder:
        for network, (model, rate) in NETWORKS.items():
            job = pathlib.Path(folder) / "job.yaml"
            job.write_text(JOB.replace("MODEL", json.dumps(model)).replace("RATE", str(rate)))
            for precision in PRECISIONS:
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement")
    parser.add_argument("--isa", default="auto", help="kernels for bfloat16: auto, amx, avx512bf16, avx512 …")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    {"speed": speed, "accuracy": accuracy}[arguments.what](arguments)


if __name__ == "__main__":
    main()
