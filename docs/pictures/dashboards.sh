#!/usr/bin/env bash
# Draws the dashboards of docs/monitoring.md and the operator's page, from trainings that it does
# itself: three minutes. It needs what scripts/test.sh control-plane needs, built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 dashboards_data.py "$work"
python=$(../../scripts/venv.sh requirements.txt)
for dashboard in jobs operator; do
  "$python" dashboards_picture.py "$work/$dashboard.json" "dashboard-$dashboard.svg"
done
cp "$work"/page-*.png .
