#!/usr/bin/env bash
# Debian 12's PyTorch for processors, unpacked and not installed: prints the environment in which its python3 runs.
#
#   env $(scripts/torch.sh) python3 -c 'import torch'
#
# It has Debian's NumPy, and all libraries that this machine lacks: 143 MB to load, 620 MB on disk.
set -euo pipefail
[ $# -eq 0 ] || { echo "usage: torch.sh" >&2; exit 2; }
root=$("$(dirname "${BASH_SOURCE[0]}")/unpack.sh" --with-dependencies python3-torch)
libraries=$root/usr/lib/x86_64-linux-gnu
echo "LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$root/usr/lib:$root/lib/x86_64-linux-gnu PYTHONPATH=$root/usr/lib/python3/dist-packages"
