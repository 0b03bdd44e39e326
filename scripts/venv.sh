#!/usr/bin/env bash
# Makes a Python environment with exactly the packages of a requirements file, once, and prints its interpreter.
#
#   python=$(scripts/venv.sh tests/interop/requirements.txt)
#
# A line "# --no-deps" in the file says that it names all that is wanted, whatever the packages ask for.
# It lies in .cache/venvs/, named after the file's folder, and is made anew when the file or the interpreter changes.
set -euo pipefail
[ $# -eq 1 ] && [ -f "$1" ] || { echo "usage: venv.sh REQUIREMENTS_FILE" >&2; exit 2; }
requirements=$(realpath "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=$(realpath --relative-to="$root" "$(dirname "$requirements")" | tr / -)
folder=$root/.cache/venvs/$name
mkdir -p "$root/.cache/venvs"

exec 9>"$folder.lock"
flock 9
wanted=$({ python3 --version; cat "$requirements"; } | sha256sum)
if [ "$(cat "$folder/made-from" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder"
  flags=(--disable-pip-version-check --no-input --no-compile) # modules are compiled when they are imported
  ! grep -qx '# --no-deps' "$requirements" || flags+=(--no-deps)
  log=$folder.log
  if ! "$folder/bin/pip" install "${flags[@]}" --requirement "$requirements" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "venv.sh: cannot install $1 into $folder, see $log" >&2
    exit 1
  fi
  echo "$wanted" >"$folder/made-from"
fi
echo "$folder/bin/python"
