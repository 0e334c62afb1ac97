#!/usr/bin/env bash
# libkiln.so exports names of kiln:: only, and needs nothing of LLVM, CUDA or Torch to start.
# Usage: symbols.sh LIBKILN
set -euo pipefail
library=$1

# Weak symbols are templates of the C++ library that every shared object shares.
foreign=$(nm -DC --defined-only "$library" | awk '$2 !~ /^[VWvwu]$/' | cut -d' ' -f3- |
  grep -vE '^(kiln::|(typeinfo|typeinfo name|vtable|guard variable) for kiln::)' || true)
if [[ -n $foreign ]]; then
  echo "exported, but not of kiln:::"
  echo "$foreign" | head -20
  exit 1
fi
weak=$(nm -DC --defined-only "$library" | awk '$2 ~ /^[VWvwu]$/' | cut -d' ' -f3- |
  grep -E '(^|[ <(])(mlir|llvm|torch|c10|fmt|nlohmann)::' || true)
if [[ -n $weak ]]; then
  echo "exported templates of hidden libraries:"
  echo "$weak" | head -20
  exit 1
fi

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -iE 'LLVM|MLIR|cuda|nvrtc|torch|c10' <<< "$needed"; then
  echo "must not be needed"
  exit 1
fi
echo "$(nm -DC --defined-only "$library" | grep -c ' kiln::') names of kiln:: exported; needs:" \
  "$(tr '\n' ' ' <<< "$needed")"
