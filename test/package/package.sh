#!/usr/bin/env bash
# Installs a build into an empty folder, builds the sample project against it and runs it.
# Usage: package.sh BUILD_FOLDER
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/kiln" > "$work/install.log"
cp "$here"/project/* "$work"
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/kiln" -DCMAKE_BUILD_TYPE=Release \
  > "$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build"
"$work/build/gate"
"$work/kiln/bin/kernel-compile" --version
