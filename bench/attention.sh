#!/usr/bin/env bash
# Attention of language models and of AlphaFold beside its peers, in one run on one GPU, into FOLDER:
# JSON reports and table.md. FlashAttention-4 is measured where Python can import flash_attn.cute.
#   bench/attention.sh [FOLDER, default attention-results]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-attention-results}
mkdir -p "$out"
for name in language_models alphafold; do
  workload=bench/workloads/attention/$name.txt
  build/bin/attention --workload="$workload" --json="$out/kiln_$name.json" || true # cells say why
  python3 bench/peers_attention.py --workload="$workload" --json="$out/peers_$name.json" \
    --compilers="$([[ $name == alphafold ]] && nproc || echo 0)"
done
python3 bench/table_attention.py "$out"/kiln_*.json "$out"/peers_*.json --out="$out/table.md"
