#!/usr/bin/env bash
# How fast input pipelines are alone: examples/s and the time of each stage, on the digits of examples/data and on made-up CIFAR-10 files.
#
#   benchmarks/input_pipeline.sh [SECONDS]
#
# They must stay ahead of the fastest network that reads them: `trainyard-trainer bench --model lenet5` says how fast that is here.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-3}
trainer=build/release/trainer/trainyard-trainer
[ -x "$trainer" ] || { echo "input_pipeline.sh: $trainer is missing; build it: cmake --preset release && ninja -C build/release trainyard-trainer" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$trainer" data convert --job examples/lenet5-local.yaml --out "$work/digits" >/dev/null
python3 examples/data/make_cifar.py "$work/cifar" >/dev/null

measure() {  # measure TITLE JOB [--set …]
  echo "== $1"
  "$trainer" data bench --job "$2" --seconds "$seconds" "${@:3}"
}
store="format: store, dir: $work/digits, train: {}"
measure "digits in memory" examples/lenet5-local.yaml
measure "digits from a store's files" examples/lenet5-local.yaml --set "training.data={$store, pipeline: [read, {shuffle: {buffer: 1000}}, batch, {prefetch: {depth: 2}}]}"
measure "digits, shifted and normalised" examples/lenet5-pipeline.yaml
measure "CIFAR-10, flipped and shifted" examples/resnet56-cifar10.yaml --set "training.data.dir=$work/cifar"
