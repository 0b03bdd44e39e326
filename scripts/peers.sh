#!/usr/bin/env bash
# Loads the programs of others that the tests ask: mostly waiting for the network. A run of all tests does it at its start, so that later steps need not.
#
#   scripts/peers.sh
set -uo pipefail
[ $# -eq 0 ] || { echo "usage: peers.sh" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
scripts/unpack.sh prometheus
scripts/torch.sh
scripts/unpack.sh qemu-user-static
scripts/sysroot.sh arm64
find tests/interop -name requirements.txt -exec scripts/venv.sh {} \;
