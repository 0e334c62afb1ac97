#!/usr/bin/env bash
# Training steps of AlphaFold 2's monomer at crop 256 with 132 rows and 1024 extra ones, for 1 to 4
# passes, and forward and backward of its parts; without Kiln, and with it. A line of JSON each. No
# data is needed.
#   bench/alphafold.sh BUILD_FOLDER [FLAGS...]
# FLAGS replace those below: --precision=fp32, --recompute=blocks, --stage=finetune, or
# --model=tiny --crop=32 --device=cpu to see that it works.
set -euo pipefail
for kiln in off on; do
  "$1/bin/train_alphafold" --bench=10 --precision=bf16 --kiln="$kiln" "${@:2}"
done
