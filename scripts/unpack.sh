#!/usr/bin/env bash
# Unpacks a Debian package into .cache/debian, once, and prints its root folder. Nothing is installed, so no service of the machine starts.
#
#   scripts/unpack.sh prometheus                        the package alone
#   scripts/unpack.sh --with-dependencies python3-torch  with all that this machine lacks of what it needs; empty if it lacks nothing
set -euo pipefail
dependencies=no
[ "${1:-}" != --with-dependencies ] || { dependencies=yes; shift; }
[ $# -eq 1 ] && [[ $1 != -* ]] || { echo "usage: unpack.sh [--with-dependencies] PACKAGE" >&2; exit 2; }
package=$1
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cache/debian/$package
mkdir -p "$folder"

# load OPTION …: the packages into $folder/debs, by apt with these options.
load() {
  rm -rf "$folder/debs"
  mkdir -p "$folder/debs/partial"
  if [ "$dependencies" = yes ]; then
    apt-get -y --download-only --no-install-recommends -o Debug::NoLocking=1 -o Dir::Cache::archives="$folder/debs" "$@" install "$package"
  else
    (cd "$folder/debs" && apt-get "$@" download "$package")
  fi
}

# unpack OPTION …: loads the packages, and unpacks them into an empty $folder/root.
unpack() {
  load "$@" || return 1
  rm -rf "$folder/root"
  mkdir -p "$folder/root"
  local deb
  for deb in "$folder"/debs/*.deb; do
    [ -e "$deb" ] || continue  # nothing is lacking: the machine has the package
    dpkg -x "$deb" "$folder/root" || { echo "dpkg cannot unpack $deb: $(stat -c '%s bytes' "$deb"), $(df -h --output=avail "$folder" | tail -n 1) free"; return 1; }
  done
}

# The same with package lists of its own: the machine has none, or old ones.
unpack_by_new_lists() {
  mkdir -p "$folder/lists/partial"
  local own=(-o Debug::NoLocking=1 -o Dir::State::lists="$folder/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  apt-get "${own[@]}" update && unpack "${own[@]}"
}

exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/unpacked" ]; then
  if ! { unpack || unpack_by_new_lists; } >"$folder.log" 2>&1; then
    tail -n 5 "$folder.log" >&2
    echo "unpack.sh: cannot load and unpack $package, see $folder.log; is this Debian 12 with a network?" >&2
    exit 1
  fi
  rm -rf "$folder/debs" "$folder/lists"
  touch "$folder/unpacked"
fi
echo "$folder/root"
