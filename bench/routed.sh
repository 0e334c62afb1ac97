#!/usr/bin/env bash
# Routed ops beside ATen and torch.compile, on the device and on the host, as one table: FOLDER gets
# routed.md and routed.json, and the reports that they are made of. Needs a GPU.
#   bench/routed.sh FOLDER [PYTHON]
# KILN_CACHE=FILE takes tuned kernels from a store; SECONDS_OF_PEERS limits torch.compile's part,
# for which COMPILERS processes compile beforehand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$1 python=${2:-python3}
mkdir -p "$out"
build/bin/routed --json="$out/kiln.json"
"$python" bench/peers_routed.py --json="$out/peers.json" --seconds="${SECONDS_OF_PEERS:-400}" \
  --compilers="${COMPILERS:-8}"
"$python" bench/table.py "$out/kiln.json" "$out/peers.json" --title="Routed ops" \
  --out="$out/routed.md" --json="$out/routed.json"
