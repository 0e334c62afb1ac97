#!/usr/bin/env bash
# Makes the store that ships with Kiln: times ATen's kernels, tunes the row workloads of AlphaFold, of
# language models and of routed ops on the GPU at hand, then what whole training steps ask for and
# attention, times each choice beside the default and a plain copy, and keeps choices and cubins
# only. What it learned beside that stays in tuned.db; run again, it goes on from there.
#   bench/tune_store.sh STORE.db REPORT.md     e.g. autotune/stores/h200.db bench/results/tuned_h200.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
store=$1 report=$2 kiln=build/bin/kernel-compile
for workload in alphafold_layernorm language_model_rows routed_rows; do
  build/bin/kiln-baseline --workload="bench/workloads/$workload.txt" --store=tuned.db
  "$kiln" tune -v --workload="bench/workloads/$workload.txt" --store=tuned.db
done
for workload in bench/workloads/training/*.txt \
                bench/workloads/attention/{alphafold,language_models}.txt; do
  "$kiln" tune -v --workload="$workload" --store=tuned.db
done
"$kiln" bench tuned.db --record
"$kiln" report tuned.db -o "$report"
"$kiln" cache export tuned.db -o "$store"
