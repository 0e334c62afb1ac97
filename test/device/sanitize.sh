#!/usr/bin/env bash
# compute-sanitizer over kernels. Needs a GPU and CUDA's compute-sanitizer; fails, with its report,
# if a tool finds anything, if a test fails, or if nothing ran.
#   test/device/sanitize.sh [BUILD] [COUNT] [PROCESSES]
# Always: its four tools over the device tests, side by side. With COUNT also racecheck and memcheck
# over as many functions and attentions that are drawn, forward and backward, by default and drawn
# schedules, and over the numerics table's attentions that hold a bias, in PROCESSES (one a core)
# side by side. KILN_RANDOM_SEED names other ones; SANITIZE_LOGS a folder to keep the logs in,
# SANITIZE_TOOLS other tools than those two, and SANITIZE_DEVICE_TESTS=0 leaves out the device tests.
# Left out of those are times, which are others under a sanitizer, and of racecheck, which looks at
# shared memory alone, 2^31 rows without any, which overflow its records. Rings take it minutes.
set -euo pipefail
bin=${1:-build}/bin count=${2:-0} processes=${3:-$(nproc)}
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[[ -x $sanitizer ]] || { echo "compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin" >&2; exit 2; }
[[ $count =~ ^[0-9]+$ && $processes =~ ^[1-9][0-9]*$ ]] || { sed -n '4p' "$0" >&2; exit 2; }
logs=${SANITIZE_LOGS:-}
if [[ -n $logs ]]; then
  mkdir -p "$logs"
else
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
fi
failed=0

# check LOG TOOL COMMAND...: one process; a call that a test makes fail is no finding.
check() {
  local log=$1 tool=$2 more=()
  shift 2
  [[ $tool != memcheck ]] || more=(--report-api-errors no)
  "$sanitizer" --tool "$tool" --error-exitcode 1 "${more[@]}" "$@" > "$log" 2>&1
}
# Findings that the tool's last lines count.
findings() {
  sed -n 's/.*SUMMARY: \([0-9]*\) \(hazard\|error\).*/\1/p' "$1" | tail -n 1
}

check_device_tests() {
  local tool skipped process
  declare -A running=()
  for tool in memcheck racecheck initcheck synccheck; do
    skipped='*TimesGrowWithTheWork'
    [[ $tool != racecheck ]] || skipped+=':*AsManyRowsAsAllowed'
    check "$logs/$tool" "$tool" "$bin/device_tests" --gtest_filter="-$skipped" &
    running[$!]=$tool
  done
  for process in "${!running[@]}"; do
    tool=${running[$process]}
    wait "$process" || { failed=1; cat "$logs/$tool"; }
    echo "$tool: $(tail -n 1 "$logs/$tool")"
  done
}

# check_slices TOOL NAME FILTER PROGRAM: a program's tests, dealt out to all processes.
check_slices() {
  local tool=$1 name=$2 filter=$3 program=$4 slice log passed=0 skipped=0 found=0 lost=0 number
  local -a started=()
  for ((slice = 0; slice < processes; ++slice)); do
    GTEST_TOTAL_SHARDS=$processes GTEST_SHARD_INDEX=$slice check "$logs/$tool-$name-$slice" "$tool" \
      "$bin/$program" --gtest_brief=1 --gtest_filter="$filter" &
    started+=($!)
  done
  for ((slice = 0; slice < processes; ++slice)); do
    log=$logs/$tool-$name-$slice
    wait "${started[slice]}" || { lost=$((lost + 1)); cat "$log"; }
    number=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log") && passed=$((passed + ${number:-0}))
    number=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log") && skipped=$((skipped + ${number:-0}))
    number=$(findings "$log")
    [[ -n $number ]] || { lost=$((lost + 1)); echo "$tool says nothing in $log" >&2; }
    found=$((found + ${number:-0}))
  done
  echo "$tool of $name: $passed passed, $skipped skipped, $found findings, $lost of $processes processes failed"
  ((passed > 0 && found == 0 && lost == 0)) || failed=1
}

[[ ${SANITIZE_DEVICE_TESTS:-1} == 0 ]] || check_device_tests
if ((count > 0)); then
  KILN_RANDOM_SEED=${KILN_RANDOM_SEED:-$(date +%s)000} # one for all processes
  export KILN_RANDOM_SEED KILN_RANDOM_COUNT=$count
  echo "drawn from seed $KILN_RANDOM_SEED"
  for tool in ${SANITIZE_TOOLS:-racecheck memcheck}; do
    check_slices "$tool" functions '*RandomFunctions.AgreeOnTheGpu/*' random_tests
    check_slices "$tool" attentions '*RandomAttentions.AgreeOnTheGpu/*' random_tests
    check_slices "$tool" held_biases '*NumericsOnGpu.*/attention_held_*' numerics_tests
  done
fi
exit $failed
