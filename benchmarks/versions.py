"""The steady step of two builds of the trainer in turn: has a change made it slower?

  python3 benchmarks/versions.py OLD_TRAINER NEW_TRAINER [--rounds 5] [--steps 1500]
  python3 benchmarks/versions.py OLD_TRAINER NEW_TRAINER --one-core [--rounds 5]

Over parameter servers: LeNet-5, batch 32, for 1 server + 1 worker and 1 server + 2 workers. From each report: steps a second, and the
processor milliseconds of the server and of one worker for one step of all.

With --one-core: whole steps of four networks by `bench`, float32, the same instruction set in both. The milliseconds of the fastest step,
and the processor milliseconds of the median step.

Medians over the rounds, and the ratio new / old.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: versions}
spec:
  ps: {replicas: 1}
  worker: {replicas: %d}
  training:
    model: {preset: lenet5}
    data:
      format: idx
      dir: examples/data/mnist
      train: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [0, 9000]}
    batchSize: 32
    steps: %d
    resources: {threads: 1}
    optimizer: {name: momentum, learningRate: 0.02, momentum: 0.9}
    strategy: {parameterServer: {mode: %s}}
    seed: 1
"""


def run(trainer, workers, mode, steps):
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder, "job.yaml")
        job.write_text(JOB % (workers, steps, mode), encoding="utf-8")
        subprocess.run([trainer, "launch", job, "--output", f"{folder}/run"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = json.loads(pathlib.Path(folder, "run/report.json").read_text(encoding="utf-8"))
    of_all = report["steps"]
    return {
        "steps/s": of_all / report["seconds"],
        "server ms/step": 1e3 * report["perServer"][0]["cpuSeconds"] / of_all,
        "worker ms/step": 1e3 * statistics.mean(each["cpuSeconds"] for each in report["perWorker"]) / of_all,
    }


def bench(trainer, model, batch, isa):
    command = [trainer, "bench", "--model", model, "--batch", str(batch), "--isa", isa, "--seconds", "2", "--json"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return {"fastest ms": found["bestMillisecondsPerStep"], "CPU ms": found["cpuMillisecondsPerStep"], "isa": found["isa"]}


def compare(name, rounds):
    """`rounds`: pairs of what the old and the new build gave."""
    for key in (key for key in rounds[0][0] if key != "isa"):
        old, new = (statistics.median(each[side][key] for each in rounds) for side in (0, 1))
        ratio = statistics.median(each[1][key] / each[0][key] for each in rounds)
        print(f"{name:24}{key:>16}{old:10.3f}{new:10.3f}{ratio:10.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1500, help="of each worker")
    parser.add_argument("--one-core", action="store_true")
    args = parser.parse_args()
    print(f"{'':24}{'':>16}{'old':>10}{'new':>10}{'new/old':>10}")
    if args.one_core:
        isa = bench(args.old, "linear", 32, "auto")["isa"]  # the old build may lack the newest
        for model, batch in (("lenet5", 128), ("mnistCnn", 128), ("resnet56v2", 64), ("ptbLstm", 20)):
            compare(f"{model}, batch {batch}", [(bench(args.old, model, batch, isa), bench(args.new, model, batch, isa)) for _ in range(args.rounds)])
        return
    for mode in ("sync", "async"):
        for workers in (1, 2):
            compare(f"{mode}, 1 + {workers}",
                    [(run(args.old, workers, mode, args.steps), run(args.new, workers, mode, args.steps)) for _ in range(args.rounds)])


if __name__ == "__main__":
    main()
