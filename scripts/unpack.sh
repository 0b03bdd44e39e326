#!/usr/bin/env bash
# Unpacks a Debian package into .cache/debian, once, and prints its root folder. Nothing is installed, so no service of the machine starts.
#
#   scripts/unpack.sh prometheus                        the package alone
#   scripts/unpack.sh --with-dependencies python3-torch  with all that this machine lacks of what it needs
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

# The same with package lists of its own: the machine has none, or old ones.
load_by_new_lists() {
  mkdir -p "$folder/lists/partial"
  local own=(-o Debug::NoLocking=1 -o Dir::State::lists="$folder/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  apt-get "${own[@]}" update && load "${own[@]}"
}

exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/unpacked" ]; then
  rm -rf "$folder/root"
  mkdir -p "$folder/root"
  if ! { load || load_by_new_lists; } >"$folder.log" 2>&1; then
    tail -n 5 "$folder.log" >&2
    echo "unpack.sh: cannot load $package, see $folder.log; is this Debian 12 with a network?" >&2
    exit 1
  fi
  printf '%s\0' "$folder"/debs/*.deb | xargs -0 -I{} dpkg -x {} "$folder/root"
  rm -rf "$folder/debs" "$folder/lists"
  touch "$folder/unpacked"
fi
echo "$folder/root"
