#!/usr/bin/env bash
# The memory that a big model takes while it trains: peak resident bytes of every process, over 1
# and 4 servers, in both modes.
#
#   benchmarks/big_model.sh [MEGABYTES of parameters, 1000 by default [memory or network, both by default]]
#
# Replicas of one machine talk through shared memory; network: over gRPC, as on several machines.
# CI runs the same at 200 MB (tests/e2e/big_model_test.py). 1000 MB need about 8 GB of memory and 3
# GB of disk. A server keeps up to 32 MiB for its streams. Below 200 MB that is more than the bounds
# leave for it.
set -euo pipefail
cd "$(dirname "$0")/.."
export TRAINYARD_TRAINER=$PWD/build/release/trainer/trainyard-trainer TRAINYARD_BIG_MODEL_MB=${1:-1000} PYTHONDONTWRITEBYTECODE=1
[ -x "$TRAINYARD_TRAINER" ] || { echo "big_model.sh: $TRAINYARD_TRAINER is missing; build it: cmake --preset release && ninja -C build/release trainyard-trainer" >&2; exit 1; }
case ${2:-both} in
  both) python3 tests/e2e/big_model_test.py ;;
  memory) python3 tests/e2e/big_model_test.py ThroughMemory ;;
  network) python3 tests/e2e/big_model_test.py OverNetwork ;;
  *) echo "big_model.sh: found \"$2\", expected memory or network" >&2; exit 2 ;;
esac
