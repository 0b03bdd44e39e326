#!/usr/bin/env bash
# Collects what an image needs of a built program: scripts/images/collect.sh <binary> <output folder>
#
# Writes <output>/<name> (stripped) and <output>/packages.txt: the Debian packages of its shared libraries that are not in every Debian
# image already. The Dockerfiles install exactly those, so that nobody keeps a list by hand.
set -euo pipefail
if [ $# -ne 2 ] || [ ! -x "$1" ]; then
  echo "collect.sh: usage: collect.sh <existing binary> <output folder>" >&2
  exit 2
fi
binary=$1 output=$2
mkdir -p "$output"
install -m 0755 "$binary" "$output/"
strip --strip-unneeded "$output/$(basename "$binary")"

missing=$(ldd "$binary" | awk '/not found/ {print $1}')
[ -z "$missing" ] || { echo "collect.sh: $binary needs libraries that are not installed here: $missing" >&2; exit 1; }
ldd "$binary" | awk '$3 ~ /^\// {print $3}' | xargs -r -n1 readlink -f | sort -u | while read -r library; do
  # dpkg knows a merged /usr by either name.
  dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "${library#/usr}"
done | cut -d: -f1 | sort -u | while read -r package; do
  case $(dpkg-query -W -f='${Essential} ${Priority}' "$package") in
    yes*|*required) ;;
    *) [ "$package" = libc6 ] || echo "$package" ;;
  esac
done >"$output/packages.txt"
