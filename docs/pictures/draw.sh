#!/usr/bin/env bash
# Draws the pictures of the pages. The architecture comes from its graph (dot of Debian's graphviz),
# the folders of both halves from CMake's knowledge of them. One run comes from a training that the
# script does itself.
#
#   docs/pictures/draw.sh [RUN_FOLDER]     the folder of a run that is there already
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v dot >/dev/null || { echo "draw.sh: no dot; apt-get install graphviz" >&2; exit 1; }
run=${1:-}
if [ -z "$run" ]; then
  run=$(mktemp -d)/run
  trap 'rm -rf "$(dirname "$run")"' EXIT
  (cd ../.. && build/release/trainer/trainyard-trainer launch examples/lenet5-ps.yaml --output "$run")
fi
for graph in *.dot; do
  dot -Tsvg "$graph" >"${graph%.dot}.svg"
done
for half in trainer operator; do
  ./rooms.sh "$half" ../../build/release/layers.txt | dot -Tsvg >"$half-rooms.svg"
done
"$(../../scripts/venv.sh requirements.txt)" run_picture.py "$run" run.svg
