#!/usr/bin/env bash
# Runs a command inside the node that up.sh started: scripts/cluster/enter.sh [--name N] kubectl get pods
exec python3 "$(dirname "${BASH_SOURCE[0]}")/../../tests/cluster/cluster.py" enter "$@"
