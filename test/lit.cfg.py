# The text tests: test/{ops,passes,emit,diagnostics}/*.mlir, run by `ctest -R lit` or directly:
#   python3 /usr/lib/llvm-19/build/utils/lit/lit.py -v build/test [--filter=NAME]
import os
import shutil

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = config.source_folder
config.test_exec_root = config.output_folder
# Rooms with other kinds of tests.
config.excludes = [
    name
    for name in os.listdir(config.source_folder)
    if name not in ("ops", "passes", "emit", "diagnostics")
]
config.environment["PATH"] = os.pathsep.join(
    [config.kiln_tools, config.llvm_tools, os.environ["PATH"]]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=error"
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%device", config.device_folder))
nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
if nvcc:
    config.available_features.add("nvcc")
    config.substitutions.append(("%nvcc", nvcc))
