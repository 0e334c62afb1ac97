#!/usr/bin/env bash
# Bounded fuzzing of what comes from outside: MLIR (through libkiln.so, guided by seeds and a
# dictionary), workload files (the parser itself, guided by coverage), stores (through libkiln.so,
# from the pages of a real one) and AlphaFold's files (the parsers themselves).
# Usage: fuzz.sh BUILD_FOLDER SECONDS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
seconds=$2
work=$build/fuzz
mkdir -p "$work"/{mlir,workload,store,features,seeds-mlir,seeds-workload,seeds-store,seeds-features}

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
# Parsers of AlphaFold's files: gemmi's headers are C++17.
features=$root/models/alphafold/features
constants=$(find "$build/models/alphafold" -name 'kiln_chemistry.S.o' 2> /dev/null || true)
build_features_fuzz() {
  "${compile[@]}" -std=c++17 -c "$features/CifFile.cpp" -o "$work/CifFile.o" &&
    "${compile[@]}" -DFMT_HEADER_ONLY "$here/features_fuzz.cpp" \
      "$features"/{Align,Alignments,Chemistry,CifTable,Hits,Packed,Structures,Text}.cpp \
      "$work/CifFile.o" "$constants" -o "$work/features_fuzz" \
      -L"$build/lib" -lkiln -Wl,-rpath,"$build/lib" -lz -lzstd
}
[[ -z $constants ]] || build_features_fuzz &
all_end

# Seeds: the shipped workloads, every op's tests, and a store of one kernel where NVRTC is.
find "$root/bench/workloads" "$root/test" -name '*.mlir' -exec cp {} "$work/seeds-mlir" \;
cp "$root"/bench/workloads/*.txt "$work/seeds-workload"
rm -f "$work"/seeds-store/*
"$build/bin/kernel-compile" compile --op=softmax --shape=8x32 --store="$work/seeds-store/filled" \
  > "$work/fill.log" 2>&1 &&
  "$build/bin/kernel-compile" cache export "$work/seeds-store/filled" -o "$work/seeds-store/small" \
  > "$work/fill.log" || echo "store_fuzz: begins without a seed: $(tail -n 1 "$work/fill.log")"

# One of each of AlphaFold's formats; the first byte says which.
printf '\0>q\nACD\n>h\nA-kD\n' > "$work/seeds-features/a3m"
printf '\1# STOCKHOLM 1.0\nq AC-D\nh ACKD\n//\n' > "$work/seeds-features/stockholm"
printf '\3No 1\n>1ABC_A x\nProbab=9 Sum_probs=1\nQ q 2 CD 3 (5)\nT t 1 CD 2 (4)\n' \
  > "$work/seeds-features/hhr"
{
  printf '\4data_x\n_entry.id x\nloop_\n'
  printf '_atom_site.%s\n' label_atom_id label_comp_id label_asym_id Cartn_x Cartn_y Cartn_z \
    label_seq_id label_entity_id
  printf 'CA %s A 1 2 3 %s 1\n' ALA 1 MSE 2
  printf 'loop_\n_entity_poly_seq.entity_id\n_entity_poly_seq.num\n_entity_poly_seq.mon_id\n'
  printf '1 %s %s\n' 1 ALA 2 MSE
  printf "_entity_poly.entity_id 1\n_entity_poly.type 'polypeptide(L)'\n"
} > "$work/seeds-features/mmcif"

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
[[ -z $constants ]] || fuzz features_fuzz -max_len=4000 "$work/features" "$work/seeds-features" &
fuzz module_fuzz -max_len=4000 -dict="$here/mlir.dict" "$work/mlir" "$work/seeds-mlir" &
all_end
