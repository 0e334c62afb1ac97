#!/usr/bin/env bash
# Installs a build into an empty folder, builds the sample project against it and runs it; the same
# with the sample trainer, if a folder of LibTorch is given.
# Usage: package.sh BUILD_FOLDER [LIBTORCH_FOLDER]
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/kiln" > "$work/install.log"
# sample NAME [CMake options...]: configures and builds a project in a folder of its own.
sample() {
  local name=$1
  shift
  cp -r "$here/$name" "$work/$name"
  cmake -S "$work/$name" -B "$work/$name/build" -DCMAKE_PREFIX_PATH="$work/kiln" \
    -DCMAKE_BUILD_TYPE=Release "$@" > "$work/configure.log" ||
    { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/$name/build"
}

sample project
"$work/project/build/gate"
if [[ -n ${2:-} ]]; then
  sample trainer -DKILN_TORCH_DIR="$2" -DCMAKE_CXX_FLAGS=-O0 # most of it is LibTorch's headers
  "$work/trainer/build/trainer"
fi
"$work/kiln/bin/kernel-compile" --version
