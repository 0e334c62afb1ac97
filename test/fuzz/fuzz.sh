#!/usr/bin/env bash
# Bounded fuzzing of what comes from outside: MLIR (through libkiln.so, guided by seeds and a
# dictionary), workload files (the parser itself, guided by coverage) and stores (through
# libkiln.so, from the pages of a real one).
# Usage: fuzz.sh BUILD_FOLDER SECONDS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
seconds=$2
work=$build/fuzz
mkdir -p "$work"/{mlir,workload,store,seeds-mlir,seeds-workload,seeds-store}

# all_end: waits for what runs in the background; fails if any of it failed.
all_end() {
  local job status=0
  for job in $(jobs -p); do
    wait "$job" || status=1
  done
  return "$status"
}

# shellcheck disable=SC2054 # the commas are the compiler's
compile=(clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr
  -I"$root" -I"$root/codegen/include")
"${compile[@]}" "$here/module_fuzz.cpp" -o "$work/module_fuzz" \
  -L"$build/lib" -lkiln -Wl,-rpath,"$build/lib" &
"${compile[@]}" "$here/store_fuzz.cpp" -o "$work/store_fuzz" \
  -L"$build/lib" -lkiln -Wl,-rpath,"$build/lib" &
"${compile[@]}" -DFMT_HEADER_ONLY "$here/workload_fuzz.cpp" "$root/codegen/backend/Workload.cpp" \
  "$root/codegen/backend/DType.cpp" "$root/codegen/backend/Printable.cpp" -o "$work/workload_fuzz" &
all_end

# Seeds: the shipped workloads, every op's tests, and a store of one kernel where NVRTC is.
find "$root/bench/workloads" "$root/test" -name '*.mlir' -exec cp {} "$work/seeds-mlir" \;
cp "$root"/bench/workloads/*.txt "$work/seeds-workload"
rm -f "$work"/seeds-store/*
"$build/bin/kernel-compile" compile --op=softmax --shape=8x32 --store="$work/seeds-store/filled" \
  > "$work/fill.log" 2>&1 &&
  "$build/bin/kernel-compile" cache export "$work/seeds-store/filled" -o "$work/seeds-store/small" \
  > "$work/fill.log" || echo "store_fuzz: begins without a seed: $(tail -n 1 "$work/fill.log")"

# MLIR's archives have no sanitizer inside: containers that cross the border look overflown.
export ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0
fuzz() {
  "$work/$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=0 \
    -artifact_prefix="$work/$1-" -verbosity=0 "${@:2}" \
    > "$work/$1.log" 2>&1 ||
    { tail -n 40 "$work/$1.log"; echo "$1: failed; the input is in $work/$1-*"; return 1; }
  echo "$1: no crash in $seconds s"
}
fuzz workload_fuzz -max_len=2000 "$work/workload" "$work/seeds-workload" &
fuzz store_fuzz -max_len=300000 -len_control=0 "$work/store" "$work/seeds-store" &
fuzz module_fuzz -max_len=4000 -dict="$here/mlir.dict" "$work/mlir" "$work/seeds-mlir" &
all_end
