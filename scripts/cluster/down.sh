#!/usr/bin/env bash
# Stops what up.sh started and removes its folder: scripts/cluster/down.sh [--name N]
exec python3 "$(dirname "${BASH_SOURCE[0]}")/../../tests/cluster/cluster.py" down "$@"
