#!/usr/bin/env bash
# The archive of a build, as a stranger gets it: unpacked, moved elsewhere, looked at by symbols.sh; its
# command runs, and the sample project builds against it and runs; the same with the sample trainer,
# if a folder of LibTorch is given.
# Usage: package.sh BUILD_FOLDER [LIBTORCH_FOLDER]
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH # nothing of this machine may help

cpack --config "$build/CPackConfig.cmake" -B "$work/made" > "$work/cpack.log" ||
  { cat "$work/cpack.log"; exit 1; }
mkdir "$work/unpacked" "$work/moved"
tar xzf "$work"/made/kiln-*-linux-x86_64.tar.gz -C "$work/unpacked"
kiln=$work/moved/kiln
mv "$work"/unpacked/kiln-* "$kiln"
for entry in README.md LICENSE bin lib include share/kiln/store share/doc/kiln/licenses; do
  [[ -e $kiln/$entry ]] || { echo "the archive has no $entry"; exit 1; }
done
"$here/symbols.sh" "$kiln"

# Without the user's stores: what it finds is the one that came along.
export HOME=$work XDG_CACHE_HOME=$work/cache
"$kiln/bin/kernel-compile" --version
"$kiln/bin/kernel-compile" doctor
"$kiln/bin/kernel-compile" explain --op=softmax --shape=8192x10000 --dtype=bf16 > "$work/explained" ||
  true # what was tuned for another version of the compiler is near, and no hit
grep -E '^system layer: |the nearest choice' "$work/explained" ||
  { echo "the store beside the library was not asked:"; cat "$work/explained"; exit 1; }

# sample NAME [CMake options...]: configures and builds a project in a folder of its own.
sample() {
  local name=$1
  shift
  cp -r "$here/$name" "$work/$name"
  cmake -S "$work/$name" -B "$work/$name/build" -DCMAKE_PREFIX_PATH="$kiln" \
    -DCMAKE_BUILD_TYPE=Release "$@" > "$work/configure.log" ||
    { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/$name/build"
}

sample project
"$work/project/build/gate"
if [[ -n ${2:-} ]]; then
  sample trainer -DKILN_TORCH_DIR="$2" -DCMAKE_CXX_FLAGS=-O0 # most of it is LibTorch's headers
  "$work/trainer/build/trainer"

  # As find_package(Torch) links programs: with libtorch.so, without c10 and CUDA's runtime. The host
  # target removes a folder; libtorch.so exports a function for that which crashes.
  parts=("$2"/lib/libtorch.so "$2"/lib/libtorch_cpu.so)
  ! [[ -e $2/lib/libtorch_cuda.so ]] || parts+=("$2/lib/libtorch_cuda.so")
  c++ -std=c++20 -I"$kiln/include" "$here/project/gate.cpp" -o "$work/gate" -Wl,--no-as-needed \
    "$kiln"/lib/libkiln{_torch,}.so "${parts[@]}" -Wl,--as-needed -Wl,--allow-shlib-undefined \
    -Wl,-rpath,"$kiln/lib:$2/lib"
  env -u KILN_HOST_CACHE "$work/gate"
  # The command that needs LibTorch finds it beside Kiln's folder, as in site-packages.
  ln -s "$2" "$work/moved/torch"
  "$kiln/bin/kiln-baseline" --help > "$work/help" || { cat "$work/help"; exit 1; }
fi
