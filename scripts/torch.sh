#!/usr/bin/env bash
# Unpacks Debian 12's PyTorch for processors into .cache/torch, once, and prints the environment in which its python3 runs. Installs nothing.
#
#   env $(scripts/torch.sh) python3 -c 'import torch'
#
# It has Debian's NumPy, and all libraries that this machine lacks: 143 MB to load, 620 MB on disk.
set -euo pipefail
[ $# -eq 0 ] || { echo "usage: torch.sh" >&2; exit 2; }
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cache/torch
mkdir -p "$folder"

exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/unpacked" ]; then
  rm -rf "$folder"
  mkdir -p "$folder/debs/partial" "$folder/root"
  if ! apt-get --download-only --no-install-recommends -y -o Debug::NoLocking=1 -o Dir::Cache::archives="$folder/debs" install python3-torch >"$folder.log" 2>&1; then
    tail -n 5 "$folder.log" >&2
    echo "torch.sh: cannot load python3-torch, see $folder.log; is this Debian 12, after apt-get update?" >&2
    exit 1
  fi
  printf '%s\0' "$folder"/debs/*.deb | xargs -0 -I{} dpkg -x {} "$folder/root"
  rm -r "$folder/debs"
  touch "$folder/unpacked"
fi
root=$folder/root
libraries=$root/usr/lib/x86_64-linux-gnu
echo "LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$root/usr/lib:$root/lib/x86_64-linux-gnu PYTHONPATH=$root/usr/lib/python3/dist-packages"
