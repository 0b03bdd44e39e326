#!/usr/bin/env python3
"""Pictures a second that a pipeline of JPEG files makes on one core, beside torchvision's DataLoader with one worker.

    benchmarks/run.sh jpeg [--rounds 3] [--seconds 3]

Made-up photographs of 500 x 375 pixels are decoded, scaled and cropped to 224 x 224 and put into batches of 32, in a new order in each epoch. Each
program has the second core alone, with all of its threads and processes. They take turns; the table has the medians.
"""
import argparse
import importlib.util
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIDE, BATCH = 224, 32
PICTURES = """
import sys, pathlib, numpy
from PIL import Image
random = numpy.random.default_rng(1)
for i in range(256):
    coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), numpy.uint8)).resize((500, 375), Image.BICUBIC)
    noise = random.normal(0, 6, (375, 500, 3))
    folder = pathlib.Path(sys.argv[1], "abcd"[i % 4])
    folder.mkdir(exist_ok=True)
    Image.fromarray(numpy.clip(numpy.asarray(coarse) + noise, 0, 255).astype(numpy.uint8)).save(folder / f"{i}.jpg", quality=85)
"""
JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: jpeg}}
spec:
  worker: {{replicas: 1}}
  training:
    model: {{input: {{shape: [{side}, {side}, 3]}}, layers: [globalAveragePool2d, {{dense: {{units: 4}}}}], loss: softmaxCrossEntropy}}
    data: {{format: images, dir: {folder}, evalFraction: 0.1}}
    batchSize: {batch}
    steps: 1
    strategy: {{local: {{}}}}
"""


def output_of(*command):
    return subprocess.run(["taskset", "-c", "1", *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def ours(trainer, job, seconds):
    return float(re.search(r"([\d,]+) examples/s", output_of(trainer, "data", "bench", "--job", job, "--seconds", seconds))[1].replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build/release/trainer/trainyard-trainer")
    options = parser.parse_args()
    if importlib.util.find_spec("torchvision") is None:
        parser.error("this Python has no torchvision; benchmarks/run.sh jpeg installs it and runs this script")
    with tempfile.TemporaryDirectory() as folder:
        pictures, job = pathlib.Path(folder, "pictures"), pathlib.Path(folder, "job.yaml")
        pictures.mkdir()
        subprocess.run([sys.executable, "-c", PICTURES, pictures], check=True)
        job.write_text(JOB.format(side=SIDE, batch=BATCH, folder=pictures))
        rounds = {"trainyard": [], "torchvision": []}
        for _ in range(options.rounds):
            rounds["trainyard"].append(ours(options.trainer, job, options.seconds))
            rounds["torchvision"].append(float(output_of(sys.executable, ROOT / "benchmarks/peer_torchvision.py", pictures, SIDE, BATCH, options.seconds)))
    peer = statistics.median(rounds["torchvision"])
    print("| pipeline | pictures/s | ratio |\n|---|---:|---:|")
    for name, rates in rounds.items():
        print(f"| {name} | {statistics.median(rates):.0f} | {statistics.median(rates) / peer:.2f} |")


if __name__ == "__main__":
    main()
