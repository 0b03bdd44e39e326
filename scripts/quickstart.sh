#!/usr/bin/env bash
# From a clone to a trained network on one machine: installs what is missing, builds the trainer, trains LeNet-5 on real handwritten digits
# with one parameter server and two workers. Arguments go to `launch`: scripts/quickstart.sh --set worker.replicas=4
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
echo "quickstart: building the trainer (the first time takes minutes)"
mkdir -p build
for step in "cmake --preset release" "cmake --build build/release --target trainyard-trainer -j ${TRAINYARD_JOBS:-$(nproc)}"; do
  # shellcheck disable=SC2086 - a command and its words
  $step >build/quickstart.log 2>&1 || { tail -n 20 build/quickstart.log; echo "quickstart: '$step' failed, see build/quickstart.log" >&2; exit 1; }
done
exec build/release/trainer/trainyard-trainer launch examples/lenet5-ps.yaml "$@"
