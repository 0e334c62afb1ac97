#!/usr/bin/env bash
# Writes the golden files test/emit/*.cu and test/unit/model_choices.txt anew: runs the tests and
# takes over what they generated. Look at `git diff test` before you commit it.
#   test/update-golden.sh [BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build}
lit=$(sed -n 's/^LLVM_DIR:PATH=\(.*\)\/lib\/cmake\/llvm$/\1/p' "$build/CMakeCache.txt")/build/utils/lit/lit.py
rm -f "$build"/test/lit/emit/Output/*.tmp.cu
python3 "$lit" -q --filter emit "$build/test" > /dev/null || true
for text in test/emit/*.mlir; do
  name=$(basename "$text" .mlir)
  [[ -s $build/test/lit/emit/Output/$name.mlir.tmp.cu ]] || { echo "$name: nothing generated"; exit 1; }
  cp "$build/test/lit/emit/Output/$name.mlir.tmp.cu" "test/emit/$name.cu"
done
KILN_UPDATE_GOLDEN=1 "$build/bin/unit_tests" --gtest_filter="ModelChoices.*" > /dev/null
git --no-pager diff --stat test/emit test/unit
