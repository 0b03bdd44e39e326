#!/usr/bin/env bash
# What a big model costs in memory while it trains: peak resident bytes of every process, over 1 and 4 servers, in both modes.
#
#   benchmarks/big_model.sh [MEGABYTES of parameters, 1000 by default]
#
# CI runs the same at 200 MB (tests/e2e/big_model_test.py). 1000 MB need about 8 GB of memory and 3 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/.."
export TRAINYARD_TRAINER=$PWD/build/release/trainer/trainyard-trainer TRAINYARD_BIG_MODEL_MB=${1:-1000} PYTHONDONTWRITEBYTECODE=1
[ -x "$TRAINYARD_TRAINER" ] || { echo "big_model.sh: $TRAINYARD_TRAINER is missing; build it: cmake --preset release && ninja -C build/release trainyard-trainer" >&2; exit 1; }
python3 tests/e2e/big_model_test.py
