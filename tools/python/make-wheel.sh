#!/usr/bin/env bash
# Makes the wheel of a built Kiln, and prints its path: a whole installation as the package's folder,
# with the Python sources beside it. auditwheel reads from the symbols that its libraries ask of glibc
# and libstdc++ which manylinux tag is true; LibTorch and CUDA are torch's wheel's.
# Usage: make-wheel.sh BUILD_FOLDER PYTHON OUTPUT_FOLDER, PYTHON having hatchling and auditwheel
set -euo pipefail
build=$1 python=$2 output=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cmake --install "$build" --strip --prefix "$stage/kiln" > "$stage/install.log"
find "$stage/kiln" -type l -delete # a wheel has no links: libraries by the names that are loaded
cp "$here"/kiln/*.py "$build/tools/python/_built_for.py" "$stage/kiln"
cp "$here/platform_tag.py" "$build/tools/python/pyproject.toml" "$here"/../../{README.md,LICENSE} "$stage"
mkdir "$stage/scripts"
for command in "$stage"/kiln/bin/*; do
  install -m 755 "$here/command.py" "$stage/scripts/${command##*/}"
done
cd "$stage"
"$python" -m hatchling build -t wheel -d plain > hatchling.log 2>&1 || { cat hatchling.log >&2; exit 1; }
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair plain/*.whl -w repaired \
  --exclude 'libtorch_*' > auditwheel.log 2>&1 ||
  { cat auditwheel.log >&2; exit 1; }
mkdir -p "$output"
rm -f "$output"/kiln-*.whl
cp repaired/*.whl "$output"
echo "$output"/kiln-*.whl
