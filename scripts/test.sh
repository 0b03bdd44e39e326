#!/usr/bin/env bash
# Builds and runs the tests, and says for each step what passed, failed or was skipped and why.
#
#   scripts/test.sh            everything, after scripts/setup.sh
#   scripts/test.sh unit       the inner loop: release build and unit tests
#   scripts/test.sh STEP …     some of: setup unit e2e hostile interop charts control-plane cluster chaos cluster-chaos arm64 asan tsan
#   scripts/test.sh queues     Kueue, Volcano, the coscheduling plugin and kube-state-metrics, which are built first: no part of "everything"
#   scripts/test.sh oldest     the control plane's tests with the oldest Kubernetes that the charts take, which is built first: no part of "everything"
#
# With CI=true a step that this machine cannot run is a failure, else it is skipped with the reason. TRAINYARD_JOBS bounds parallel work.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
jobs=${TRAINYARD_JOBS:-$(nproc)}
logs=build/test-logs
symbolizer=/usr/lib/llvm-19/bin/llvm-symbolizer
mkdir -p "$logs"
passed=0 failed=0 skipped=0
summary=()
export PYTHONDONTWRITEBYTECODE=1
export TRAINYARD_TRAINER=${TRAINYARD_TRAINER:-$PWD/build/release/trainer/trainyard-trainer}
export TRAINYARD_OPERATOR=${TRAINYARD_OPERATOR:-$PWD/build/release/operator/trainyard-operator}

# processor_times: the seconds that all processors together were idle since boot, and those that they had (proc_stat(5)), in ticks.
processor_times() {
  awk '/^cpu / {for (i = 2; i <= 9; ++i) all += $i; print $5 + $6, all}' /proc/stat
}

# idle_share: how much of the processors no program has used since the step began.
idle_share() {
  local idle all
  read -r idle all < <(processor_times)
  echo "$((100 * (idle - step_idle) / (all > step_all ? all - step_all : 1))) %"
}

# count NAME PASSED FAILED SKIPPED NOTE: adds one step's result.
count() {
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
  summary+=("$(printf '%-14s %5d passed %4d failed %4d skipped  %5d s  %4s idle  %s' "$1" "$2" "$3" "$4" "$((SECONDS - step_started))" "$(idle_share)" "${5:-}")")
  echo "== ${summary[-1]}"
}

begin() {
  step_started=$SECONDS
  read -r step_idle step_all < <(processor_times)
  echo "== $1"
}

# must NAME LOG COMMAND…: runs a command that prepares a step; its failure counts as one, with the end of its output.
must() {
  local name=$1 log=$logs/$2
  shift 2
  "$@" >"$log" 2>&1 && return 0
  grep -nE 'error:|Error|FAILED|undefined' "$log" | head -20
  tail -n 15 "$log"
  count "$name" 0 1 0 "'$*' failed, see $log"
  return 1
}

# A build from nothing is compiled in units of several files (cmake/Compiler.cmake); a developer's release build recompiles one changed file. CI
# compiles the CUDA code always, for one kind of GPU.
ci_options=(${CI:+-DCMAKE_UNITY_BUILD=ON -DTRAINYARD_CUDA=ON -DTRAINYARD_CUDA_ARCHITECTURES=90})

build() {  # build PRESET [target…]
  local preset=$1
  shift
  must "build $preset" "configure-$preset.log" cmake --preset "$preset" "${ci_options[@]}" || return 1
  must "build $preset" "build-$preset.log" cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"} || return 1
  echo "   built $preset in $((SECONDS - step_started)) s"
}

run_ctest() {  # run_ctest NAME PRESET ctest-arguments…
  local name=$1 preset=$2 log=$logs/ctest-$1.log
  shift 2
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" >"$log" 2>&1
  local status=$? all bad not_run
  bad=$(sed -n 's/.* tests passed, \([0-9]*\) tests* failed out of [0-9]*/\1/p' "$log" | tail -1)
  all=$(sed -n 's/.* tests passed, [0-9]* tests* failed out of \([0-9]*\)/\1/p' "$log" | tail -1)
  not_run=$(grep -cE '\*\*\*(Skipped|Not Run \(Disabled\))' "$log")
  if [ -z "$all" ]; then
    tail -n 20 "$log"
    count "$name" 0 1 0 "ctest ran no test, see $log"
    return 1
  fi
  [ $status -eq 0 ] || grep -E '^\s+[0-9]+ - |\[  FAILED|Failure$|ERROR: |SUMMARY: |^FAIL: |^[A-Za-z]*Error: |^Expected|CHECK failed|^seed ' "$log" | sort -u | head -40
  # ctest counts skipped tests as passed.
  count "$name" $((all - bad - not_run)) "$bad" "$not_run" "$([ "$bad" = 0 ] || echo "see $log")"
  [ "$status" -eq 0 ]
}

run_python() {  # run_python NAME file…: standard-library unittest files, each on its own; at_once=N: so many at a time
  local name=$1 file log ran good=0 bad=0 left_out=0 reasons=""
  shift
  printf '%s\n' "$@" | xargs -P "${at_once:-1}" -I{} bash -c '
    log=$0/python-$(basename "$1" .py).log
    timeout "$([ "${CI:-}" = true ] && sed -n "s/^MOST_SECONDS_IN_CI = //p" "$1" | grep . || echo 1500)" python3 "$1" -v >"$log" 2>&1
    echo "$?" >"$log.status"' "$logs" {}
  for file in "$@"; do
    log=$logs/python-$(basename "$file" .py).log
    local status line failures errors
    status=$(cat "$log.status")
    [ "$status" -ne 5 ] || status=0  # newer Pythons say so when every test was skipped
    ran=$(sed -n 's/^Ran \([0-9]*\) tests* in .*/\1/p' "$log" | tail -1)
    line=$(grep -E '^(OK|FAILED|NO TESTS RAN)' "$log" | tail -1)
    failures=$(sed -n 's/.*failures=\([0-9]*\).*/\1/p' <<<"$line")
    errors=$(sed -n 's/.*errors=\([0-9]*\).*/\1/p' <<<"$line")
    local skips
    skips=$(sed -n 's/.*skipped=\([0-9]*\).*/\1/p' <<<"$line")
    if [ -z "$ran" ] || { [ $status -ne 0 ] && [ $((${failures:-0} + ${errors:-0})) -eq 0 ]; }; then
      tail -n 20 "$log"
      bad=$((bad + 1)) reasons+="$(basename "$file") ended with status $status, see $log; "
      continue
    fi
    if [ "$status" -ne 0 ]; then
      grep -E '^(FAIL|ERROR):|Error:|TimedOut' "$log" | head -30
      grep -A 12 'log ends:$' "$log" | head -30
      reasons+="see $log; "
    fi
    bad=$((bad + ${failures:-0} + ${errors:-0})) left_out=$((left_out + ${skips:-0}))
    local fine=$((ran - ${failures:-0} - ${errors:-0} - ${skips:-0}))
    good=$((good + (fine > 0 ? fine : 0)))
    reasons+=$(sed -n "s/.*skipped ['\"]\(.*\)['\"]$/\1/p" "$log" | sort -u | head -3 | tr '\n' ';')
  done
  count "$name" "$good" "$bad" "$left_out" "$reasons"
  [ "$bad" -eq 0 ]
}

# run_chaos NAME script JOBS: a minute of it, and so many jobs; docs in the script's head. One seed, so that a failure comes from a change and not
# from the draw; by hand the scripts draw another seed each time.
run_chaos() {
  local name=$1 log=$logs/$1.log verdict
  timeout 1200 python3 "$2" --seconds 60 --jobs "$3" --seed 1 >"$log" 2>&1
  verdict=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  if [ -z "$verdict" ]; then
    tail -n 20 "$log"
    count "$name" 0 1 0 "no verdict, see $log"
    return 1
  fi
  grep -A 30 FAILED "$log" | head -60
  count "$name" "$(sed -E 's/(.*[^0-9])?([0-9]+) passed.*/\2/' <<<"$verdict")" "$(sed -E 's/.* ([0-9]+) failed.*/\1/' <<<"$verdict")" \
    "$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<<"$verdict" | grep . || echo 0)" "${verdict%: *}"
  [[ "$verdict" == *" 0 failed"* ]]
}

# run_programs NAME PRESET FILTER PROGRAM…: test programs, each whole: the start of a process takes longer than most tests. at_once=N: so many at a
# time, else as many as there are processors. emulator=COMMAND: run by it. Those that take minutes come first, and in parts. Writes what passed, failed and was skipped to NAME.counts.
run_programs() {
  local name=$1 folder=build/$2 filter=$3 log part parts=() good=0 bad=0 left_out=0
  shift 3
  for program in $(printf '%s\n' "$@" | grep -E "^($long_programs)\$"); do parts+=("$program 0 2" "$program 1 2"); done
  for program in $(printf '%s\n' "$@" | grep -vE "^($long_programs)\$"); do parts+=("$program 0 1"); done
  rm -f "$logs/$name"-*.passed
  printf '%s\n' "${parts[@]}" | xargs -P "${at_once:-$jobs}" -L 1 bash -c '
    log=$0-$3-$4.log
    GTEST_SHARD_INDEX=$4 GTEST_TOTAL_SHARDS=$5 timeout 900 ${emulator:-} "$(find "$1" -name "$3" -type f -perm -u+x | head -1)" --gtest_filter="$2" >"$log" 2>&1 && touch "${log%.log}.passed"
    echo "took $SECONDS s" >>"$log"' "$logs/$name" "$folder" "$filter"
  for part in "${parts[@]}"; do
    read -r program index _ <<<"$part"
    log=$logs/$name-$program-$index.log
    if [ ! -f "${log%.log}.passed" ]; then
      bad=$((bad + 1))
      echo "$program failed, see $log"
      grep -E 'WARNING: ThreadSanitizer|ERROR: |SUMMARY|CHECK failed|runtime error|Failure$|\[  FAILED' "$log" | sort -u | head -20
    fi
    good=$((good + $(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1 | grep . || echo 0)))
    left_out=$((left_out + $(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log" | tail -1 | grep . || echo 0)))
  done >"$logs/$name.report"
  echo "$good $bad $left_out $#" >"$logs/$name.counts.part"
  mv "$logs/$name.counts.part" "$logs/$name.counts"
}
long_programs='trainer_(transport|kvstore|train|collectives|backend_cpu|backend|launch|checkpoint)_test'

# report_programs NAME: counts what run_programs has found.
report_programs() {
  local good bad left_out programs
  read -r good bad left_out programs <"$logs/$1.counts" || return 1
  cat "$logs/$1.report"
  count "$1" "$good" "$bad" "$left_out" "$programs programs"
  [ "$bad" -eq 0 ]
}

# The programs of a preset whose names end with one of the words behind it.
programs_of() {
  local preset=$1 word
  shift
  for word in "$@"; do sed -n "s/^build .*\/\([a-z0-9_]*_$word\): CXX_EXECUTABLE.*/\1/p" "build/$preset/build.ninja"; done | sort -u
}

# The programs of a preset's tests.
test_programs() { programs_of "$1" test; }

# Those whose tests start threads: what ThreadSanitizer is for.
tsan_targets() {
  test_programs tsan |
    grep -E '^(operator_(base|kube|cache|controller|page|progress|trainingjob)|tests_fake_apiserver|trainer_(base|data|transport|collectives|kvstore|job|checkpoint|report|serve|page|train|launch|backend_cpu))_test$'
}

step_setup() {
  begin "setup: packages"
  must setup setup.log scripts/setup.sh --cluster --cuda || return 1
  # Debian has no Arrow; with it the builds below read Parquet too.
  must arrow arrow.log scripts/venv.sh trainer/data/parquet/requirements.txt || return 1
  tail -n 1 "$logs/setup.log"
}

step_unit() {
  begin "unit: release build and unit tests"
  build release || return 1
  local programs
  mapfile -t programs < <(test_programs release)
  at_once=$((2 * jobs)) run_programs unit release '*' "${programs[@]}"  # much of their time is waiting
  report_programs unit
  begin "pages: layers, generated files and pages against the tree"
  run_ctest pages release -L unit -LE gtest
}

step_e2e() {
  begin "e2e: job files launched as local processes"
  build release && run_ctest e2e release -L e2e
}

step_hostile() {
  begin "hostile: the real programs among peers, objects and clients that mean them harm"
  local files
  mapfile -t files < <(find tests/hostile -name '*_test.py' | sort)
  build release trainyard-operator trainyard-trainer && run_python hostile "${files[@]}"
}

# The tests and the fuzz targets: nothing runs the programs themselves here.
build_asan() {
  cmake --preset asan || return 1
  local targets
  mapfile -t targets < <(programs_of asan test fuzz)
  [ ${#targets[@]} -gt 0 ] || { echo "no test program found in build/asan/build.ninja"; return 1; }
  cmake --build build/asan -j "$jobs" --target "${targets[@]}"
}

# The programs of tsan_targets.
build_tsan() {
  cmake --preset tsan || return 1
  local targets
  mapfile -t targets < <(tsan_targets)
  [ ${#targets[@]} -gt 0 ] || { echo "no test program found in build/tsan/build.ninja"; return 1; }
  cmake --build build/tsan -j "$jobs" --target "${targets[@]}"
}

asan_environment() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 ASAN_SYMBOLIZER_PATH=$symbolizer
  export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp print_suppressions=0"
}

# The programs of a preset's tests under its sanitizer. The counts come out in a file, as these run in the background of other steps.
sanitize_asan() {
  asan_environment
  local programs
  mapfile -t programs < <(test_programs asan)
  # Networks whose every op the tests of that backend compute too, a hundred times as long as in a release build.
  run_programs asan asan '-*/lenet5_cuda_on_host:*/mnistCnn_reference_f64:*/resnet56v2_reference_f64' "${programs[@]}"
}

sanitize_tsan() {
  # Suppressions go by the names of functions, which the symbolizer tells.
  export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp halt_on_error=1 second_deadlock_stack=1 external_symbolizer_path=$symbolizer"
  local programs
  mapfile -t programs < <(tsan_targets)
  # What one thread hands to another through gRPC, which Debian builds without ThreadSanitizer, looks unordered: those cases run in process only.
  # Crash.* lives a job's life a hundred times, by the same threads each time: minutes, for what any of its lives shows. Kernels of one
  # instruction set are shared among threads as those of another.
  run_programs tsan tsan '-*Grpc*:Crash.*:*/baseline' "${programs[@]}"
}

in_idle_time() { (renice -n 19 "$BASHPID" >/dev/null && "$@"); }

# The sanitizers' builds and tests take the processors that the other steps leave idle: those mostly wait for pods, deadlines and the network. The
# tests have deadlines, so they give way less than the compiler. The steps asan and tsan wait for them.
sanitize_in_background() {
  rm -f "$logs"/{asan,tsan}.counts
  set -m  # a process group of its own, which the end of this script ends
  (
    renice -n 5 "$BASHPID" >/dev/null
    in_idle_time build_asan >"$logs/build-asan.log" 2>&1 && asan=built
    in_idle_time build_tsan >"$logs/build-tsan.log" 2>&1 && tsan=built
    [ -z "${asan:-}" ] || sanitize_asan
    [ -z "${tsan:-}" ] || sanitize_tsan
  ) &
  sanitizers=$!
  set +m
}

# sanitized NAME: what the sanitizer's tests in the background, or run now, have found.
sanitized() {
  if [ -n "${sanitizers:-}" ]; then
    while [ ! -f "$logs/$1.counts" ] && kill -0 "$sanitizers" 2>/dev/null; do sleep 1; done
    if [ ! -f "$logs/$1.counts" ]; then
      tail -n 15 "$logs/build-$1.log"
      count "$1" 0 1 0 "the build failed, see $logs/build-$1.log"
      return 1
    fi
  else
    must "build $1" "build-$1.log" "build_$1" || return 1
    "sanitize_$1"
  fi
  report_programs "$1"
}

# The kernels for arm64 in an emulator: NEON, and SVE with registers of 256 bits. bfloat16 has no instructions of its own there, so one of the two
# runs what stands in for them. The emulator takes minutes for some SVE tests: those whose kernels other tests run too are left to NEON.
step_arm64() {
  local qemu sysroot programs threads twice='*LeNetAgrees*:*OverBatchesAndChannels*:*TimeDistributed*:*TenThousandClasses*:*ManyBands*'
  begin "arm64: the kernels of NEON and SVE, in an emulator"
  must sysroot sysroot.log scripts/sysroot.sh arm64 || return 1
  must qemu qemu.log scripts/unpack.sh qemu-user-static || return 1
  build arm64 || return 1
  sysroot=$(scripts/sysroot.sh arm64) qemu=$(scripts/unpack.sh qemu-user-static)/usr/bin/qemu-aarch64-static
  # Left out: what is about the system that the emulator stands for, and the backend of other devices. That bits do not depend on threads is a
  # matter of how work is cut, which no instruction set changes.
  mapfile -t programs < <(test_programs arm64 | grep -vE '^trainer_(base|devices|backend_cuda|backend_no_cuda)_test$')
  threads='*OnAnyNumberOfThreads*:*TheNumberOfThreads*'
  emulator="$qemu -L $sysroot" TRAINYARD_EMULATED=yes run_programs arm64-neon arm64 "-$threads" "${programs[@]}"
  report_programs arm64-neon
  begin "arm64: SVE"
  emulator="$qemu -cpu max,sve-default-vector-length=32 -L $sysroot" TRAINYARD_EMULATED=yes \
    run_programs arm64-sve arm64 "*sve256*:-*Bf16*:$twice:$threads" trainer_backend_cpu_test
  report_programs arm64-sve
}

step_asan() {
  begin "asan: unit tests and fuzz targets under AddressSanitizer and UndefinedBehaviorSanitizer"
  sanitized asan
  [ -f build/asan/build.ninja ] || return 1
  begin "fuzz: fuzz targets, and the other tests, under the same"
  asan_environment
  run_ctest fuzz asan -L 'unit|fuzz' -LE gtest
}

step_tsan() {
  begin "tsan: tests with threads under ThreadSanitizer"
  sanitized tsan
}

step_interop() {
  begin "interop: files read by other people's tools"
  local files
  mapfile -t files < <(find tests/interop -name '*_test.py' 2>/dev/null | sort)
  [ ${#files[@]} -gt 0 ] || { count interop 0 0 0 "no such tests"; return 0; }
  build release trainyard-trainer export_networks run_ops && run_python interop "${files[@]}"
}

# The cluster's binaries: built in the background from the start of a whole run, waited for here.
cluster_binaries() {
  must "cluster binaries" cluster-build.log scripts/cluster/build.sh "$@"
}

step_charts() {
  begin "charts: lint and templates, by Helm 4 and Helm 3"
  cluster_binaries kubernetes helm4 helm3 && run_python charts tests/charts/charts_test.py
}

control_plane_tests=(crd deploy lifecycle messages monitoring page plugin scale_and_nodes serving upgrade)
newer_control_plane_tests=(gitops native_gang policy)  # need ValidatingAdmissionPolicy, of 1.30, or native gangs, of 1.36

# control_plane NAME TEST…: the files tests/cluster/TEST_test.py, two at once.
control_plane() {
  local name=$1 files=("${@:2}")
  files=("${files[@]/#/tests/cluster/}")
  build release trainyard-operator trainyard-trainer && cluster_binaries etcd kubernetes helm4 helm3 kwok && at_once=2 run_python "$name" "${files[@]/%/_test.py}"
}

step_control-plane() {
  begin "control-plane: acceptance cases against a real kube-apiserver and etcd"
  control_plane control-plane "${control_plane_tests[@]}" "${newer_control_plane_tests[@]}"
}

step_oldest() {
  local version
  version=$(sed -n 's/^OLDEST_KUBERNETES_VERSION=//p' scripts/cluster/versions.sh)
  begin "oldest: the acceptance cases against Kubernetes $version, the oldest that the charts take"
  TRAINYARD_KUBERNETES_VERSION=$version control_plane oldest "${control_plane_tests[@]}"
}

step_queues() {
  begin "queues: jobs under Kueue, Volcano and the coscheduling plugin, and seen by kube-state-metrics"
  build release trainyard-operator trainyard-trainer && cluster_binaries && cluster_binaries scheduler-plugins kueue volcano kube-state-metrics &&
    run_python queues tests/cluster/queues_test.py tests/cluster/preemption_test.py tests/cluster/state_metrics_test.py
}

step_cluster() {
  begin "cluster: a real node, images, Helm, training"
  build release trainyard-operator trainyard-trainer && cluster_binaries && run_python cluster tests/cluster/training_test.py tests/cluster/frameworks_test.py tests/cluster/gpu_test.py
}

step_chaos() {
  begin "chaos: a minute of small jobs by launch, while all that can die does"
  build release trainyard-trainer && run_chaos launch-chaos tests/chaos/launch_chaos.py 10
}

step_cluster-chaos() {
  begin "cluster-chaos: a minute of small jobs on a real cluster, while all that can die does"
  build release trainyard-operator trainyard-trainer && cluster_binaries && run_chaos cluster-chaos tests/chaos/cluster_chaos.py 4
}

all=(setup unit e2e hostile interop charts control-plane cluster chaos cluster-chaos arm64 asan tsan)
by_hand=(queues oldest)
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
for step in "${steps[@]}"; do
  [[ " ${all[*]} ${by_hand[*]} " == *" $step "* ]] || { echo "test.sh: unknown step '$step' (known: ${all[*]} ${by_hand[*]})" >&2; exit 2; }
done
background= sanitizers= peers=
trap '[ -z "$sanitizers" ] || kill -- "-$sanitizers" 2>/dev/null; [ -z "$background" ] || kill "$background" 2>/dev/null; [ -z "$peers" ] || kill "$peers" 2>/dev/null' EXIT
if [[ " ${steps[*]} " == *" setup "* ]]; then
  step_setup || { echo "0 passed, 1 failed"; exit 1; }
  scripts/peers.sh >"$logs/peers.log" 2>&1 &
  peers=$!
  if ! scripts/cluster/build.sh --check >/dev/null 2>&1; then
    # Mostly downloading at first: beside the compiler, at the lowest priority. The image from which the cluster's images are built comes before.
    nice -n 15 bash -c 'python3 tests/cluster/cluster.py base-image; exec scripts/cluster/build.sh' >"$logs/cluster-build-background.log" 2>&1 &
    background=$!
  fi
fi
for step in "${steps[@]}"; do
  [ "$step" = setup ] || "step_$step" || true
  if [ "$step" = unit ] && [[ " ${steps[*]} " == *" asan "* && " ${steps[*]} " == *" tsan "* ]]; then sanitize_in_background; fi
done

echo
printf '%s\n' "${summary[@]}"
echo "tests took $((SECONDS / 60)) min $((SECONDS % 60)) s"
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
