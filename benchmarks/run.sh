#!/usr/bin/env bash
# Installs TensorFlow and PyTorch into .cache/venv (once) and compares whole LeNet-5 training steps on one core. Arguments go to compare.py.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.cache/venv
trainer=build/release/trainer/trainyard-trainer
[ -x "$trainer" ] || { echo "run.sh: $trainer is missing; build it: cmake --preset release && ninja -C build/release trainyard-trainer" >&2; exit 1; }
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --requirement benchmarks/requirements.txt
exec "$venv/bin/python" benchmarks/compare.py --trainer "$trainer" "$@"
