"""The results of the shipped examples for 1 to 8 workers, in step (sync) and each at its own pace
(async): the table of docs/workers.md.

    python3 benchmarks/workers.py [--trainer build/release/trainer/trainyard-trainer] [--workers 1,2,4,8] [NAME …]

Standard library only. Every run is a `launch` of the file in examples/ with --set; an accuracy below 0.95 is marked.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVER = ["ps.replicas=1"]
# name → file, its own overrides, the metric that is told, and the bound that it must keep.
RUNS = {
    "LeNet-5": ("lenet5-ps.yaml", [], "accuracy", 0.95),
    "LeNet-5, 2 servers": ("lenet5-sync.yaml", [], "accuracy", 0.95),
    "MNIST CNN": ("mnist-cnn-local.yaml", SERVER, "accuracy", 0.95),
    "linear": ("linear-sync.yaml", [], "loss", None),
    "words": ("ptb-lstm-ps.yaml", ["training.epochs=2"], "perplexity", None),
    "characters": ("shakespeare-chars.yaml", [*SERVER, "training.epochs=1"], "perplexity", None),
}


def run(trainer, file, overrides):
    with tempfile.TemporaryDirectory(prefix="trainyard-workers-") as folder:
        command = [trainer, "launch", ROOT / "examples" / file, "--output", folder, "--progress", "none"]
        for override in overrides:
            command += ["--set", override]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return {"state": "Failed", "eval": {}, "text": done.stdout[-2000:] + done.stderr[-2000:]}
        return json.loads((pathlib.Path(folder) / "report.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=ROOT / "build/release/trainer/trainyard-trainer")
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)}; default: all")
    options = parser.parse_args()
    counts = [int(count) for count in options.workers.split(",")]
    print(f"| example | metric | mode | {' | '.join(f'{count} workers' if count > 1 else '1 worker' for count in counts)} |")
    print(f"|---|---|---|{'---|' * len(counts)}")
    bad = 0
    for name in options.names or RUNS:
        file, own, metric, bound = RUNS[name]
        for mode in ("sync", "async"):
            cells = []
            for count in counts:
                strategy = f"training.strategy={{parameterServer: {{mode: {mode}}}}}"
                report = run(options.trainer, file, [*own, strategy, f"worker.replicas={count}"])
                value = report["eval"].get(metric)
                wrong = value is None or report["state"] != "Succeeded" or (bound is not None and value < bound)
                bad += wrong
                cells.append(("–" if value is None else f"{value:.3f}" if value < 10 else f"{value:.0f}") + (" (!)" if wrong else ""))
                if value is None:
                    print(report.get("text", ""), file=sys.stderr)
            print(f"| {name} | {metric} | {mode} | {' | '.join(cells)} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
