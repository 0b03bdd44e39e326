#!/usr/bin/env python3
"""Rooflines of training steps on one core: bytes, operations and the share of what processor and memory allow, by kind of op.

    python3 benchmarks/roofline.py [--model NAME,BATCH …] [--precision float32] [--seconds 3] [--picture docs/pictures/roofline.svg]

The figures are those of `trainyard-trainer bench --roofline`, which measures the peak and the memory in the same run. With --picture they are
drawn too (docs/pictures/roofline_picture.py). Needs `release` built.
"""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
MODELS = ("lenet5,128", "mnistCnn,128", "resnet56v2,64", "ptbLstm,20")
KINDS = 8  # the rest is one row
HEAD = "| op | nodes | ms | share of the step | MFLOP | MB | FLOP/byte | GFLOP/s | GB/s | share of the roof |"


def bench(arguments, model):
    name, batch = model.split(",")
    command = [arguments.trainer, "bench", "--model", name, "--batch", batch, "--precision", arguments.precision, "--seconds", str(arguments.seconds),
               "--roofline", "--json"]  # fmt: skip
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def sum_of(rows):
    total = {key: sum(row[key] for row in rows) for key in ("nodes", "milliseconds", "gflop", "megabytes")}
    least = sum(row["shareOfRoof"] * row["milliseconds"] for row in rows)
    time = max(total["milliseconds"], 1e-9)
    return {"op": "all others", **total, "flopPerByte": 1e3 * total["gflop"] / max(total["megabytes"], 1e-9), "gflops": 1e3 * total["gflop"] / time,
            "gigabytesPerSecond": total["megabytes"] / time, "shareOfRoof": least / time}  # fmt: skip


def table(result):
    *rows, step = result["roofline"]
    if len(rows) > KINDS:
        rows = [*rows[: KINDS - 1], sum_of(rows[KINDS - 1 :])]
    print(f"\n{result['model']}, batch {result['batch']}: a peak of {result['peakGflops']:.0f} GFLOP/s by {result['isa']}, "
          f"a memory of {result['memoryGigabytesPerSecond']:.1f} GB/s\n\n{HEAD}\n|---|{'---:|' * 9}")  # fmt: skip
    for row in [*rows, step]:
        print(f"| {row['op']} | {row['nodes']} | {row['milliseconds']:.2f} | {100 * row['milliseconds'] / step['milliseconds']:.0f} % | {1e3 * row['gflop']:.0f} | "
              f"{row['megabytes']:.1f} | {row['flopPerByte']:.1f} | {row['gflops']:.1f} | {row['gigabytesPerSecond']:.1f} | {100 * row['shareOfRoof']:.0f} % |",
              flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer/trainyard-trainer"))
    parser.add_argument("--model", nargs="+", default=MODELS, metavar="NAME,BATCH")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement")
    parser.add_argument("--picture", type=pathlib.Path, help="an SVG file")
    arguments = parser.parse_args()
    results = []
    for model in arguments.model:
        results.append(bench(arguments, model))
        table(results[-1])
    if arguments.picture:
        told = subprocess.run([ROOT / "scripts/venv.sh", PICTURES / "requirements.txt"], check=True, stdout=subprocess.PIPE, text=True)
        subprocess.run([told.stdout.strip(), PICTURES / "roofline_picture.py", arguments.picture], check=True, input=json.dumps(results), text=True)


if __name__ == "__main__":
    main()
