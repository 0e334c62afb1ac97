#!/usr/bin/env bash
# Training steps of language models at T = 1024, bf16: train_lm without Kiln, with its kernels under
# LibTorch's ops, and with its modules; and the same model in Python, eager and compiled. A line of
# JSON each.
#   bench/train_lm.sh BUILD_FOLDER [PYTHON] [NAME:BATCH...]
# GRAPHS=1 also times Kiln's steps as CUDA graphs. KILN_PRODUCTS=FILE takes tuned products of matrices
# (runtime/README.md). BENCH_FLAGS adds flags to train_lm's, such as --context=64 --device=cpu to see
# that it works.
set -euo pipefail
build=$1 python=${2:-python3}
models=("${@:3}")
((${#models[@]})) || models=(small:16 medium:16 large:8)
read -ra more <<< "${BENCH_FLAGS:-}"
for model in "${models[@]}"; do
  ways=(--kiln=off --kiln=on --kiln=modules)
  [[ -z ${GRAPHS:-} ]] || ways+=("--kiln=on --graphs" "--kiln=modules --graphs")
  for way in "${ways[@]}"; do
    read -ra flags <<< "$way"
    "$build/bin/train_lm" --bench=20 --model="${model%:*}" --batch="${model#*:}" --context=1024 \
      --vocabulary=10000 --precision=bf16 "${flags[@]}" "${more[@]}"
  done
done
"$python" "$(dirname "$0")/peers_lm.py" --models="$(IFS=,; echo "${models[*]}")" ||
  echo "peers_lm.py did not run" >&2
