#!/usr/bin/env bash
# Tests the backend of NVIDIA GPUs on a machine that has one, and measures it. A machine without a
# compiler or libraries of ours will do: the programs can be carried over with what they stand on.
#
#   scripts/gpu-test.sh                builds, then runs here
#   scripts/gpu-test.sh pack [FOLDER]  builds, and puts the programs and their libraries into FOLDER (build/gpu)
#   scripts/gpu-test.sh run [FOLDER]   runs what `pack` made, from the root of a checkout
#   scripts/gpu-test.sh compare [FOLDER] [OPTION…]   times it beside PyTorch (benchmarks/gpu.py has the options)
#
# What runs: every op and gradient against the reference backend; the four networks of the studies
# for 50 steps against PyTorch's numbers; a training that begins on the GPU and goes on on the
# processor; a part of the ops under compute-sanitizer; benchmarks. It ends with one line a step:
# passed, failed, or skipped and why. The exit code is 1 where something failed, 3 where nothing
# ran for want of a GPU.
# TRAINYARD_GPU=host puts the loops of this machine in the GPU's place, to try the script itself.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
mode=${1:-all}
folder=${2:-build/gpu}
programs=(trainer/backend/cuda/trainer_backend_cuda_test trainer/trainer_model_test trainer/trainyard-trainer)
case "$mode" in
  all | pack | run | compare) ;;
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
  *) echo "gpu-test.sh: unknown argument '$mode' (known: pack, run, compare)" >&2; exit 2 ;;
esac

# Programs, and all libraries that they were linked with, the loader of this system too: then they
# run on an older system. CUDA's own libraries stay behind: those of the machine are taken.
pack() {
  local build=build/release path
  echo "gpu-test: building"
  cmake --preset release -DTRAINYARD_CUDA=ON >build/gpu-configure.log 2>&1 || { tail -n 15 build/gpu-configure.log; return 1; }
  cmake --build "$build" -j "${TRAINYARD_JOBS:-$(nproc)}" --target trainer_backend_cuda_test trainer_model_test trainyard-trainer \
    >build/gpu-build.log 2>&1 || { tail -n 15 build/gpu-build.log; return 1; }
  rm -rf "$folder"
  mkdir -p "$folder/lib"
  for path in "${programs[@]}"; do
    cp "$build/$path" "$folder/"
    strip "$folder/$(basename "$path")"
    ldd "$build/$path" | grep -oE '/[^ ]+' | xargs -I{} cp -L -u {} "$folder/lib/"
  done
  echo "gpu-test: $folder holds $(du -sh "$folder" | cut -f1)"
}

summary=()
failures=0
# report NAME VERDICT [WORDS]
report() {
  summary+=("$(printf '%-12s %-8s %s' "$1" "$2" "${3:-}")")
  printf 'gpu-test: %-12s %-8s %s\n' "$1" "$2" "${3:-}"
  if [ "$2" = failed ]; then failures=$((failures + 1)); fi
}

# program NAME [argument…]: one of the folder's, with the folder's libraries and the machine's CUDA.
program() {
  local name=$1
  shift
  "${under[@]}" "${loaded[@]}" "$folder/$name" "$@"
}

# Folders of CUDA's libraries and of the driver's, apart by colons: the loader that comes along does
# not know where this system has them.
find_cuda() {
  local name
  for name in libcuda.so.1 libcublasLt.so.13 libcublasLt.so.12 libcudnn.so.9; do
    { ldconfig -p 2>/dev/null | sed -n "s|.*${name//./\\.} .*=> ||p"
      find /usr/local/cuda*/ /usr/lib /usr/local/nvidia .cache/venvs/trainer-backend-cuda /usr/local/lib/python3* /opt \
        -name "$name" -not -path '*/stubs/*' 2>/dev/null; } | head -1 | xargs -r dirname
  done | awk '!seen[$0]++' | paste -sd :
}

# tests NAME PROGRAM FILTER: a test program, whose skipped tests are told as such.
tests() {
  local log=build/gpu-$1.log passed skipped status
  program "$2" --gtest_filter="$3" >"$log" 2>&1
  status=$?
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
  if [ "$status" -ne 0 ] || [ -z "$passed" ]; then
    grep -E '^\[  FAILED|Failure$|ERROR|error' "$log" | sort -u | head -20
    report "$1" failed "exit code $status, see $log"
  elif [ "$passed" -eq 0 ]; then
    report "$1" skipped "$(grep -m1 -E 'no GPU|cannot run' "$log" || echo "see $log")"
  else
    report "$1" passed "$passed tests${skipped:+, $skipped skipped: $(grep -m1 -E 'no GPU|cannot run' "$log")}"
  fi
}

# Two epochs on the GPU, then as many as the file says on the processor, in one output folder.
resume() {
  local log=build/gpu-resume.log output first
  output=$(mktemp -d)
  local train=(program trainyard-trainer train --job_name=worker --task_index=0 --config examples/lenet5-local.yaml --output "$output")
  if ! "${train[@]}" --backend "$1" --set training.epochs=2 >"$log" 2>&1 || ! "${train[@]}" --backend cpu --set training.epochs=3 >>"$log" 2>&1; then
    tail -n 5 "$log"
    report resume failed "see $log"
  else
    first=$(grep -m1 -oE 'accuracy +[0-9.]+' "$log")
    accuracy=$(grep -oE 'accuracy +[0-9.]+' "$log" | tail -1)
    if awk -v found="${accuracy##* }" 'BEGIN {exit !(found >= 0.9)}'; then
      report resume passed "$first after 2 epochs on $1, $accuracy after one more on the processor"
    else
      report resume failed "accuracy '$accuracy' after 3 epochs, expected 0.9 at least; see $log"
    fi
  fi
  rm -rf "$output"
}

sanitize() {
  local tool
  for tool in memcheck racecheck synccheck; do
    under=("$sanitizer" --tool "$tool" --error-exitcode 9 --target-processes all)
    tests "$tool" trainer_backend_cuda_test '*OutsideTraining/Gpu:*RecordedStep*/Gpu'
    under=()
  done
}

bench() {
  local log=build/gpu-bench.log line network model batch
  : >"$log"
  for network in "lenet5 512" "resnet56v2 128" "ptbLstm 20"; do
    read -r model batch <<<"$network"
    if line=$(program trainyard-trainer bench --model "$model" --batch "$batch" --backend cuda --seconds 10 2>&1); then
      echo "$line" >>"$log"
      report "bench" passed "$model, batch $batch: $(grep -m1 -E '/s' <<<"$line" | xargs)"
    else
      report "bench" failed "$model: $(tail -1 <<<"$line")"
    fi
  done
}

open_folder() {
  under=()
  [ -d "$folder/lib" ] || { echo "gpu-test: $folder holds no programs; run scripts/gpu-test.sh pack first" >&2; return 2; }
  mkdir -p build
  cuda_libraries=$(find_cuda)
  loaded=("$(find "$PWD/$folder/lib" -name 'ld-linux*' | head -1)" --library-path "$PWD/$folder/lib:$cuda_libraries")
}

run() {
  echo "gpu-test: libraries of CUDA in ${cuda_libraries:-no folder}"
  command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  if [ "${TRAINYARD_GPU:-}" = host ]; then
    tests ops trainer_backend_cuda_test '-*Gpu'
    tests networks trainer_model_test '*cuda_on_host*'
    resume cpu
    report sanitizer skipped "there is no GPU in this trial"
    report bench skipped "there is no GPU in this trial"
    return
  fi
  tests ops trainer_backend_cuda_test '*Gpu:Libraries*'
  tests networks trainer_model_test '*cuda:*_cuda'
  if ! grep -q 'PASSED  . [1-9]' build/gpu-networks.log; then
    for step in resume sanitizer bench; do report "$step" skipped "no GPU can be used"; done
    return
  fi
  resume cuda
  sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/bin -name compute-sanitizer 2>/dev/null | head -1)
  if [ -n "$sanitizer" ]; then sanitize; else report sanitizer skipped "this machine has no compute-sanitizer"; fi
  bench
}

mkdir -p build
if [ "$mode" = all ] || [ "$mode" = pack ]; then pack || exit 1; fi
if [ "$mode" = pack ]; then exit 0; fi
open_folder || exit
if [ "$mode" = compare ]; then exec python3 benchmarks/gpu.py --trainer "${loaded[*]} $folder/trainyard-trainer" "${@:3}"; fi
run || exit
echo
printf '%s\n' "${summary[@]}"
if [ "$failures" -gt 0 ]; then exit 1; fi
if ! printf '%s\n' "${summary[@]}" | grep -v '^ops' | grep -q ' passed '; then exit 3; fi
