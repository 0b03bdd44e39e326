#!/usr/bin/env bash
# Collects what an image needs of a built program: scripts/images/collect.sh <binary> <output folder>
#
# Writes <output>/bin (the program, and the module for Parquet where one was built beside it; stripped), <output>/lib (libraries that no Debian
# package has: Arrow's), and <output>/packages.txt: the Debian packages of all shared libraries that are not in every Debian image already. The
# Dockerfiles install exactly those, so that nobody keeps a list by hand.
set -euo pipefail
if [ $# -ne 2 ] || [ ! -x "$1" ]; then
  echo "collect.sh: usage: collect.sh <existing binary> <output folder>" >&2
  exit 2
fi
binary=$1 output=$2
module=$(dirname "$binary")/trainyard-parquet.so
programs=("$binary")
[ "$(basename "$binary")" != trainyard-trainer ] || [ ! -e "$module" ] || programs+=("$module")
mkdir -p "$output/bin" "$output/lib/trainyard"

owner() { dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null; }  # dpkg knows a merged /usr by either name

for program in "${programs[@]}"; do
  install -m 0755 "$program" "$output/bin/"
  strip --strip-unneeded "$output/bin/$(basename "$program")"
  missing=$(ldd "$program" | awk '/not found/ {print $1}')
  [ -z "$missing" ] || { echo "collect.sh: $program needs libraries that are not installed here: $missing" >&2; exit 1; }
done
ldd "${programs[@]}" | awk '$3 ~ /^\// {print $1, $3}' | sort -u | while read -r name library; do
  owner "$(readlink -f "$library")" || install -m 0644 "$library" "$output/lib/trainyard/$name"
done | cut -d: -f1 | sort -u | while read -r package; do
  case $(dpkg-query -W -f='${Essential} ${Priority}' "$package") in
    yes*|*required) ;;
    *) [ "$package" = libc6 ] || echo "$package" ;;
  esac
done >"$output/packages.txt"
