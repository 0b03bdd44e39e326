#!/usr/bin/env bash
# Format and lint: clang-format on every file, syntax of the scripts, clang-tidy, and names that clash where files are compiled together.
#
#   scripts/lint.sh            clang-tidy on the files changed since LINT_BASE (default: the last commit of origin/main, else all), and uncommitted ones
#   scripts/lint.sh --all      clang-tidy on every file
#   scripts/lint.sh --fix      formats instead of complaining
#
# clang-tidy takes files newest change first and stops after LINT_SECONDS (default 900): it says how many it looked at. CI and the sanitizers
# compile the files of a folder together (CONTRIBUTING.md). Outside of CI, which does that next, the changed files are checked so too.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
jobs=${TRAINYARD_JOBS:-$(nproc)}
seconds=${LINT_SECONDS:-900}
status=0

mkdir -p build
mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | while read -r file; do [ -f "$file" ] && echo "$file"; done)
case "${1:-}" in
  '' | --all | --fix) ;;
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
  *) echo "lint.sh: unknown argument '$1' (known: --all, --fix)" >&2; exit 2 ;;
esac
if [ "${1:-}" = --fix ]; then
  printf '%s\0' "${sources[@]}" | xargs -0 -n 20 -P "$jobs" clang-format-19 -i
  exit
fi
if printf '%s\0' "${sources[@]}" | xargs -0 -n 20 -P "$jobs" clang-format-19 --dry-run --Werror 2>build/format.log; then
  echo "format: ${#sources[@]} files hold"
else
  grep -E 'error:' build/format.log | cut -d: -f1 | sort | uniq -c | head -20
  echo "format: run scripts/lint.sh --fix"
  status=1
fi

while read -r file; do
  if [ -f "$file" ] && [ ! -x "$file" ] && LC_ALL=C read -r -n 2 start <"$file" && [ "$start" = '#!' ]; then
    echo "$file: found '#!' at its start, expected a file that can be executed; run chmod +x $file"
    status=1
  fi
done < <(git ls-files --cached --others --exclude-standard)
while read -r script; do
  bash -n "$script" || status=1
done < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
while read -r script; do
  python3 - "$script" <<'PY' || status=1
import ast, sys
ast.parse(open(sys.argv[1]).read(), sys.argv[1])
PY
done < <(git ls-files --cached --others --exclude-standard '*.py')

configure_and_generate() {  # configure_and_generate FOLDER ON|OFF: a build folder with the headers that protoc makes; ON: files are compiled together
  cmake --preset release -B "$1" -DCMAKE_UNITY_BUILD="$2" -DTRAINYARD_PRECOMPILED_HEADERS=OFF >"$1.log" 2>&1 || { tail -n 15 "$1.log"; exit 1; }
  ninja -C "$1" -t targets all | sed -n 's/^\(.*\.pb\.h\): .*/\1/p' | xargs -r ninja -C "$1" >"$1.log" 2>&1 || { tail -n 15 "$1.log"; exit 1; }
}

# A build folder of its own: each file by itself and with its own includes, whatever the others hold.
configure_and_generate build/lint OFF
base=${LINT_BASE:-$(git rev-parse --verify --quiet origin/main || true)}
if [ "${1:-}" = --all ] || [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then
  changed=$(git log --format= --name-only -- '*.cc' | awk '!seen[$0]++')
else
  changed=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | grep '\.cc$')
fi
known=$(sed -n "s|^  *\"file\": \"$PWD/\(.*\)\",*$|\1|p" build/lint/compile_commands.json)
mapfile -t files < <(grep -Fx -f <(echo "$known") <<<"$changed" | while read -r file; do [ -f "$file" ] && echo "$file"; done)
if [ ${#files[@]} -eq 0 ]; then
  echo "tidy: no changed files"
  exit $status
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work
one() {
  # One file after another until the time is up. Files that were looked at are noted.
  [ "$(date +%s)" -lt "$TIDY_END" ] || exit 0
  if timeout 300 clang-tidy-19 -p build/lint --quiet "$1" >"$work/$(tr / _ <<<"$1").out" 2>/dev/null; then echo "$1" >>"$work/good"; else
    echo "$1" >>"$work/bad"
    grep -E ' (warning|error): ' "$work/$(tr / _ <<<"$1").out" || echo "$1: clang-tidy did not finish"
  fi
}
export -f one
export TIDY_END=$(($(date +%s) + seconds))
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'one "$0"' | sort -u
touch "$work/good" "$work/bad"
looked=$(cat "$work/good" "$work/bad" | wc -l)
echo "tidy: $looked of ${#files[@]} files looked at, $(wc -l <"$work/bad") with findings$([ "$looked" -eq ${#files[@]} ] || echo " (stopped after $seconds s)")"
[ ! -s "$work/bad" ] || status=1

[ -z "${CI:-}" ] && [ "${1:-}" != --all ] || exit $status
configure_and_generate build/lint-units ON
# The commands of the units that include a changed file.
python3 - "$PWD" "${files[@]}" >"$work/commands" <<'PY'
import json, pathlib, sys
root, changed = sys.argv[1], set(sys.argv[2:])
for entry in json.load(open("build/lint-units/compile_commands.json")):
    unit = pathlib.Path(entry["file"])
    if "Unity" in unit.parts and any(f'"{root}/{file}"' in unit.read_text() for file in changed):
        print(entry["command"].rsplit(" -o ", 1)[0], "-fsyntax-only", unit)
PY
if xargs -r -d '\n' -n 1 -P "$jobs" bash -c <"$work/commands" 2>"$work/units"; then
  echo "units: $(wc -l <"$work/commands") hold, which are compiled of several files"
else
  grep -E ' error: ' "$work/units" | sort -u
  echo "units: files that are compiled together clash; see the errors above"
  status=1
fi
exit $status
