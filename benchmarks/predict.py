#!/usr/bin/env python3
"""Time and memory of predictions on one core, beside onnxruntime on the exported ONNX of the same checkpoint.

    benchmarks/predict.py [--rounds 5] [--seconds 1] [--network NAME …] [--batch N …]

Ours is `trainyard-trainer bench predict`: what `serve` runs, without HTTP. Images are bytes for both. The language model reads one token a call
and carries its state. Each measurement is a process of its own, which has the second core alone; the two programs take turns, and the table
has the medians of the rounds. Needs `release` built.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRAINER = os.environ.get("TRAINYARD_TRAINER", str(ROOT / "build/release/trainer/trainyard-trainer"))
SYNTHETIC = "{format: synthetic, train: {examples: 256}}"
TEXT = "{format: text, dir: examples/data/tinyshakespeare, vocabulary: 10000, train: {files: [input.txt], fraction: [0, 0.9]}}"
NETWORKS = {"lenet5": SYNTHETIC, "mnistCnn": SYNTHETIC, "resnet56v2": SYNTHETIC, "ptbLstm": TEXT}


def checkpoint_of(network, folder):
    """A run of two steps; the same network as ONNX beside it."""
    job, output, onnx = folder / f"{network}.yaml", folder / network, folder / f"{network}.onnx"
    job.write_text(f"""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: {network.lower()}}}
spec:
  worker: {{replicas: 1}}
  training:
    model: {{preset: {network}}}
    data: {NETWORKS[network]}
    batchSize: 20
    steps: 2
    strategy: {{local: {{}}}}
""")
    transforms = [] if network == "ptbLstm" else ["--with-transforms", "uint8"]
    for command in (["launch", job, "--output", output, "--progress", "none"], ["export", output, "--format", "onnx", *transforms, "--output", onnx]):
        subprocess.run([TRAINER, *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return output, onnx


def measured(*command):
    found = subprocess.run(["taskset", "-c", "1", *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    options = parser.parse_args()
    python = subprocess.run([ROOT / "scripts/venv.sh", ROOT / "tests/interop/requirements.txt"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    print("| network, batch | program | median us | p99 us | times as fast: median, p99 | peak MiB |\n|---|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network in options.network:
            output, onnx = checkpoint_of(network, pathlib.Path(folder))
            for batch in options.batch:
                programs = {"trainyard": (TRAINER, "bench", "predict", output, "--batch", batch, "--seconds", options.seconds, "--json"),
                            "onnxruntime": (python, ROOT / "benchmarks/peer_onnxruntime.py", onnx, batch, options.seconds)}  # fmt: skip
                rounds = {name: [] for name in programs}
                for _ in range(options.rounds):
                    for name, command in programs.items():
                        rounds[name].append(measured(*command))
                median = {name: {key: statistics.median(one[key] for one in of) for key in ("medianMicroseconds", "p99Microseconds", "maxRssBytes")}
                          for name, of in rounds.items()}  # fmt: skip
                for name, of in median.items():
                    ratios = ", ".join(f"{median['onnxruntime'][key] / of[key]:.2f}" for key in ("medianMicroseconds", "p99Microseconds"))
                    print(f"| {network}, {batch} | {name} | {of['medianMicroseconds']:.0f} | {of['p99Microseconds']:.0f} | {ratios} | {of['maxRssBytes'] / 2**20:.0f} |", flush=True)


if __name__ == "__main__":
    main()
