#!/usr/bin/env bash
# From a clone to a trained network on one machine. Installs the missing packages and builds the
# trainer. Then trains LeNet-5 on real handwritten digits with one parameter server and two workers.
# Arguments go to `launch`: scripts/quickstart.sh --set worker.replicas=4
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh --build
echo "quickstart: building the trainer (the first time takes minutes)"
mkdir -p build
log=build/quickstart.log
quietly() { "$@" >"$log" 2>&1 || { tail -n 20 "$log"; echo "quickstart: '$*' failed, see $log" >&2; exit 1; }; }
quietly cmake --preset release
build=(cmake --build build/release --target trainyard-trainer -j "${TRAINYARD_JOBS:-$(nproc)}")
if [ -t 1 ]; then "${build[@]}"; else quietly "${build[@]}"; fi  # on a terminal ninja shows how far it is, in one line
exec build/release/trainer/trainyard-trainer launch examples/lenet5-ps.yaml "$@"
