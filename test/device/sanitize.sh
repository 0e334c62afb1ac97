#!/usr/bin/env bash
# compute-sanitizer's four tools over the device tests, side by side. Needs a GPU and CUDA's
# compute-sanitizer. Fails, with its report, if one of them finds anything.
#   test/device/sanitize.sh [BUILD]
# Left out are times, which are others under a sanitizer, and of racecheck, which looks at shared
# memory alone, 2^31 rows without any, which overflow its records. Rings take it minutes.
set -euo pipefail
tests=${1:-build}/bin/device_tests
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[[ -x $sanitizer ]] || { echo "compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin" >&2; exit 2; }
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
for tool in memcheck racecheck initcheck synccheck; do
  skipped='*TimesGrowWithTheWork' more=()
  [[ $tool != racecheck ]] || skipped+=':*AsManyRowsAsAllowed'
  [[ $tool != memcheck ]] || more=(--report-api-errors no) # tests make calls fail
  "$sanitizer" --tool "$tool" --error-exitcode 1 "${more[@]}" "$tests" --gtest_filter="-$skipped" \
    > "$logs/$tool" 2>&1 &
  running[$!]=$tool
done
failed=0
for process in "${!running[@]}"; do
  tool=${running[$process]}
  wait "$process" || { failed=1; cat "$logs/$tool"; }
  echo "$tool: $(tail -n 1 "$logs/$tool")"
done
exit $failed
