#!/usr/bin/env bash
# What the installed binaries ask of a machine and show to a program: only the C++ library's and each
# other's names are needed to start, they are looked for relative to where the files lie, and nothing
# but kiln:: is exported.
# Usage: symbols.sh PREFIX
set -euo pipefail
prefix=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
failures=0

# fail FILE TEXT LINES: every line of LINES, unless there is none, is one thing that is wrong.
fail() {
  [[ -n $3 ]] || return 0
  printf '%s: %s:\n%s\n' "${1#"$prefix"/}" "$2" "$(head -20 <<< "$3")"
  failures=$((failures + 1))
}

# dynamic FILE NAME: the values of an entry of the dynamic section.
dynamic() {
  readelf -dW "$1" | sed -nE "s/.*\($2\).*\[(.*)\]/\1/p"
}

# check_needed FILE REGEX: beside the C++ library's and the loader only REGEX.
check_needed() {
  local system='libstdc\+\+\.so\.6|libm\.so\.6|libgcc_s\.so\.1|libc\.so\.6|ld-linux-x86-64\.so\.2'
  fail "$1" "must not be needed to start" "$(dynamic "$1" NEEDED | grep -vxE "$system|$2" || true)"
}

# check_loading FILE: found wherever it is put, also by dlopen(), as Python loads it.
check_loading() {
  # shellcheck disable=SC2016 # $ORIGIN is the loader's
  fail "$1" "is looked for at a place of the machine that built it" \
    "$(dynamic "$1" 'R[UN]*PATH' | tr ':' '\n' | grep -vE '^\$ORIGIN(/|$)' || true)"
  fail "$1" "cannot be loaded into a running program" \
    "$(readelf -dW "$1" | grep '(FLAGS).*STATIC_TLS' || true)"
  fail "$1" "holds paths of the machine that built it" \
    "$(strings -a "$1" | grep -F "$root/" || true)"
}

# check_filesystem FILE: LibTorch's libraries export parts of it that are not libstdc++'s.
check_filesystem() {
  fail "$1" "would take std::filesystem from LibTorch" \
    "$(nm -DC --undefined-only "$1" | grep -E ' U .*\bstd::filesystem::' | grep -vF ' kiln::' || true)"
}

# check_exports FILE: weak symbols are templates and types that shared objects share; of them, those
# of hidden libraries are wrong.
check_exports() {
  local names
  names=$(nm -DC --defined-only "$1" | cut -d' ' -f2-)
  fail "$1" "exported, but not of kiln::" "$(grep -vE '^[VWvwu] ' <<< "$names" | cut -d' ' -f2- |
    grep -vE '^(kiln::|(typeinfo|typeinfo name|vtable|guard variable) for kiln::)' || true)"
  fail "$1" "exported templates of hidden libraries" "$(grep -E '^[VWvwu] ' <<< "$names" |
    grep -E '(^|[ <(])(mlir|llvm|boost|fmt|nlohmann|CLI)::|sqlite3_|ZSTD_' || true)"
  grep -q ' kiln::' <<< "$names" || fail "$1" "no name of kiln:: is exported" "$names"
}

for library in "$prefix"/lib/libkiln.so "$prefix"/lib/libkiln_torch.so "$prefix"/lib/libkiln_dist.so; do
  [[ -e $library || $library == */libkiln.so ]] || continue
  check_exports "$library"
  check_filesystem "$library"
  check_loading "$library"
done
check_needed "$prefix/lib/libkiln.so" 'none'
! [[ -e $prefix/lib/libkiln_torch.so ]] || check_needed "$prefix/lib/libkiln_torch.so" \
  'libkiln\.so\.[0-9.]+|libtorch_(cpu|cuda)\.so'
! [[ -e $prefix/lib/libkiln_dist.so ]] || check_needed "$prefix/lib/libkiln_dist.so" \
  'libkiln(_torch)?\.so\.[0-9.]+|libtorch_(cpu|cuda)\.so'
for command in "$prefix"/bin/*; do
  check_needed "$command" 'libkiln(_torch)?\.so\.[0-9.]+'
  check_loading "$command"
done
fail "$prefix/lib/cmake" "names the build's folder" "$(grep -rnF "$root/" "$prefix/lib/cmake" || true)"
((failures == 0))
echo "$(nm -DC --defined-only "$prefix/lib/libkiln.so" | grep -c ' kiln::') names of kiln:: exported;" \
  "needs: $(dynamic "$prefix/lib/libkiln.so" NEEDED | tr '\n' ' ')"
