#!/usr/bin/env bash
# Unpacks Debian's Prometheus for the tests, once, and prints the folder of its programs (prometheus, promtool). It is not installed, so no
# service of the machine starts.
#
#   bin=$(scripts/prometheus.sh)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/.cache/prometheus
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -x "$folder/unpacked/usr/bin/promtool" ]; then
  log=$folder/download.log
  rm -rf "$folder/unpacked" "$folder"/*.deb
  if ! (cd "$folder" && apt-get download prometheus && dpkg -x prometheus_*.deb unpacked.part && mv unpacked.part unpacked) >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "prometheus.sh: cannot get the package prometheus (apt-get update brings the lists up to date), see $log" >&2
    exit 1
  fi
  rm -f "$folder"/*.deb
fi
echo "$folder/unpacked/usr/bin"
