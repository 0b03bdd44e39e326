#!/usr/bin/env bash
# Starts a real cluster by hand: scripts/cluster/up.sh control-plane|node [options] (docs/cluster.md)
exec python3 "$(dirname "${BASH_SOURCE[0]}")/../../tests/cluster/cluster.py" up "$@"
