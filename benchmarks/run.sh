#!/usr/bin/env bash
# Installs TensorFlow and PyTorch into .cache/venv (once) and measures them and Trainyard side by side, alternating in one run.
#
#   benchmarks/run.sh [compare] [--model MODEL] [ARGUMENT …]   whole training steps of a network on one core (compare.py)
#   benchmarks/run.sh parameter_server [ARGUMENT …]            LeNet-5 over parameter servers, speed, memory and start-up (parameter_server.py)
#   benchmarks/run.sh data_parallel [ARGUMENT …]               two replicas in step on two cores: all-reduce, devices, sync servers (data_parallel.py)
#   benchmarks/run.sh collectives [ARGUMENT …]                 all-reduce between processes, beside gloo (collectives.py)
#   benchmarks/run.sh jpeg [ARGUMENT …]                        pictures a second of a pipeline, beside torchvision (jpeg.py)
set -euo pipefail
cd "$(dirname "$0")/.."

benchmark=compare
case "${1:-}" in
  compare | parameter_server | data_parallel | collectives | jpeg) benchmark=$1; shift ;;
esac
venv=.cache/venv
trainer=build/release/trainer/trainyard-trainer
[ -x "$trainer" ] || { echo "run.sh: $trainer is missing; build it: cmake --preset release && ninja -C build/release trainyard-trainer" >&2; exit 1; }
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --requirement benchmarks/requirements.txt
exec "$venv/bin/python" "benchmarks/$benchmark.py" --trainer "$trainer" "$@"
