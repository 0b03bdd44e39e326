#!/usr/bin/env bash
# Collects the libraries that the cuda backend loads by name: scripts/images/collect-cuda.sh <output folder>
#
# Copies them from the environment of trainer/backend/cuda/requirements.txt to <output>/lib/trainyard, where the program looks for them.
set -euo pipefail
[ $# -eq 1 ] || { echo "collect-cuda.sh: usage: collect-cuda.sh <output folder>" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=$(scripts/venv.sh trainer/backend/cuda/requirements.txt)
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia
mkdir -p "$1/lib/trainyard"
install -m 0644 "$packages"/cu13/lib/lib{cublasLt,nvrtc}.so.13 "$packages"/cu13/lib/libnvrtc-builtins.so.13.* "$packages"/cudnn/lib/libcudnn*.so.9 "$1/lib/trainyard/"
