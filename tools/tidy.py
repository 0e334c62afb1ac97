"""Runs clang-tidy over every unit of ours in a build folder's compile commands, as many at once as
there are cores, walking only declarations of ours (tidy_scope.cpp). What CMake compiles together is
checked together, so that headers are read once; each file alone where that finds something. What
passed is remembered by a hash of everything that it depends on, so that a second run checks changed
files only.
Usage: tidy.py BUILD_FOLDER"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = ["clang-tidy-19", "--quiet", "--extra-arg=-w"]  # warnings are the compiler's business
SCOPE = ROOT / "tools" / "tidy_scope.cpp"


def built_scope(build):
    """The plugin as a library, made anew when its source is newer."""
    library = build / "tidy_scope.so"
    if not library.exists() or library.stat().st_mtime < SCOPE.stat().st_mtime:
        subprocess.run(["c++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fno-rtti",
                        "-isystem/usr/lib/llvm-19/include", str(SCOPE), "-o", str(library)],
                       check=True)
    return library


def dependencies(build):
    """Files that each object was made from, as ninja recorded them."""
    found, current = {}, None
    out = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True,
                         check=True).stdout
    for line in out.splitlines():
        if line.startswith("    "):
            path = (build / line.strip()).resolve()
            if path.is_relative_to(ROOT):  # the packages' headers change with the packages only
                found[current].append(path)
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
            found[current] = []
    return found


def key(unit, file, depends):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(SCOPE.read_bytes())
    digest.update(unit["command"].encode())
    for path in sorted({file, *depends}):
        digest.update(str(path).encode())
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def flags(unit):
    """What the compiler is told of headers and macros, for files that have no command of their own."""
    words = shlex.split(unit["command"])
    kept = [word for word in words if word.startswith(("-I", "-D", "-std="))]
    for word, value in zip(words, words[1:]):
        if word in ("-isystem", "-include"):
            kept += [word, value]
    return kept


def tidy(build, scope, path, how):
    run = subprocess.run([*TIDY, f"--load={scope}", "-p", str(build), str(path), *how],
                         capture_output=True, text=True)
    return run.returncode == 0, run.stdout + ("" if run.stdout else run.stderr)


def check(build, scope, members):
    """Whether each passed, and what was said of it. Members of one unit are checked as it is
    compiled; each for itself where that finds something."""
    unit = members[0]["unit"]
    alone = len(members) == 1 and members[0]["file"] == unit["file"]
    passed, text = tidy(build, scope, unit["file"], [])
    if passed or alone:
        return [(passed, text)] * len(members)
    how = ["--", *flags(unit)]
    return [tidy(build, scope, member["file"], how) for member in members]


def sources(unit, build):
    """The files of ours that a unit consists of: one, or those that CMake compiles together."""
    path = pathlib.Path(unit["file"])
    if path.is_relative_to(build) and path.name.startswith("unity_"):
        return [pathlib.Path(name) for name in re.findall(r'#include "(.*)"', path.read_text())]
    return [path] if path.is_relative_to(ROOT) and not path.is_relative_to(build) else []


def main(build):
    cache = build / "tidy-cache"
    cache.mkdir(exist_ok=True)
    depends = dependencies(build)
    files = {}
    for unit in json.loads((build / "compile_commands.json").read_text()):
        for path in sources(unit, build):
            if path.suffix == ".cpp":
                output = re.search(r" -o (\S+)", unit["command"]).group(1)
                files[path] = {"file": str(path), "unit": unit,
                               "key": key(unit, path, depends.get(output, []))}
    work = {}
    for path in sorted(files):
        if not (cache / files[path]["key"]).exists():
            work.setdefault(files[path]["unit"]["file"], []).append(files[path])
    work = sorted(work.values(), key=len, reverse=True)  # long ones first: no core waits at the end
    failed, scope = 0, built_scope(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for members, results in zip(work, pool.map(lambda some: check(build, scope, some), work)):
            for member, (passed, text) in zip(members, results):
                if passed:
                    (cache / member["key"]).touch()
                else:
                    failed += 1
                    print(f"{pathlib.Path(member['file']).relative_to(ROOT)}:\n{text}", flush=True)
    for stale in set(cache.iterdir()) - {cache / file["key"] for file in files.values()}:
        stale.unlink()
    print(f"clang-tidy: {len(files)} files, {sum(map(len, work))} checked anew, {failed} with "
          "findings")
    return failed > 0


sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
