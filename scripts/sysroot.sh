#!/usr/bin/env bash
# Unpacks what the kernels and their tests need of Debian for another architecture into .cache/debian/sysroot-ARCHITECTURE, once, and prints its root
# folder. Nothing is installed. cmake/Arm64.cmake compiles against it.
#
#   scripts/sysroot.sh arm64
set -euo pipefail
[ $# -eq 1 ] && [[ $1 =~ ^[a-z0-9]+$ ]] || { echo "usage: sysroot.sh ARCHITECTURE (such as arm64)" >&2; exit 2; }
architecture=$1
packages=(libstdc++-12-dev libabsl-dev libspdlog-dev libssl-dev libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev)
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cache/debian/sysroot-$architecture
mkdir -p "$folder"

# The packages and all that they need, for a machine of that architecture that has nothing yet.
load() {
  mkdir -p "$folder"/{debs,lists}/partial
  : >"$folder/status"
  local own=(-o Debug::NoLocking=1 -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture" -o "Dir::State::lists=$folder/lists"
    -o "Dir::State::status=$folder/status" -o "Dir::Cache::archives=$folder/debs" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  apt-get "${own[@]}" update && apt-get "${own[@]}" -y --download-only --no-install-recommends install "${packages[@]}"
}

exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/unpacked" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$folder"
  mkdir -p "$folder/root"
  if ! load >"$folder.log" 2>&1; then
    tail -n 5 "$folder.log" >&2
    echo "sysroot.sh: cannot load packages for $architecture, see $folder.log; is this Debian 12 with a network?" >&2
    exit 1
  fi
  printf '%s\0' "$folder"/debs/*.deb | xargs -0 -I{} dpkg -x {} "$folder/root"
  # Links to /lib/… mean this folder's.
  find "$folder/root" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$folder/root$(readlink "$link")")" "$link"
  done
  rm -rf "$folder/debs" "$folder/lists"
  echo "${packages[*]}" >"$folder/unpacked"
fi
echo "$folder/root"
