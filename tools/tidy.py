"""Runs clang-tidy over every unit of ours in a build folder's compile commands, as many at once as
there are cores, walking only declarations of ours (tidy_scope.cpp). Headers are most of the time: what
CMake compiles together is checked together, and the packages' headers are precompiled; each file
is checked alone and without that where something was found. What passed is remembered by a hash of
everything that it depends on, so that a second run checks changed files only.
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
# As files of ours name them: our own headers stand in quotes, or in kiln/.
PACKAGE_HEADER = re.compile(r'^#include (<(?!kiln/).*>|"(?:mlir|llvm)/.*")', re.MULTILINE)
FEW_UNITS = 2  # so many are checked before headers are precompiled


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
    digest.update(str(file).encode())  # of those that are compiled together all depend on all
    for path in sorted({file, *depends}):
        digest.update(str(path).encode())
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def flags(unit):
    """What the compiler is told of headers, macros and the language's version."""
    words = shlex.split(unit["command"])
    kept = [word for word in words if word.startswith(("-I", "-D", "-std="))]
    for word, value in zip(words, words[1:]):
        if word in ("-isystem", "-include"):
            kept += [word, value]
    return kept


def packages(unit):
    """The folders of the packages' headers that the unit sees."""
    words = flags(unit)
    return tuple(value for word, value in zip(words, words[1:]) if word == "-isystem")


def usable(header, text, how):
    """Whether it was made from this text with these options, and the packages are as they were."""
    try_it = ["clang++-19", *how, "-include-pch", str(header.with_suffix(".pch")), "-fsyntax-only",
              "-x", "c++", "/dev/null"]
    return (header.exists() and header.read_text() == text
            and subprocess.run(try_it, capture_output=True).returncode == 0)


def precompiled(build, folders, files, few):
    """All headers of these packages that these files include, as one for clang to load: a list of
    options. Empty if it would have to be made for few units, which takes longer than it saves."""
    names = {name for file in files
             for name in PACKAGE_HEADER.findall(pathlib.Path(file["file"]).read_text())}
    shared = set.intersection(*({word for word in flags(file["unit"])
                                 if word.startswith(("-D", "-std="))} for file in files))
    how = [*sorted(shared), *(word for folder in folders for word in ("-isystem", folder)), "-w"]
    text = "".join([f"// {shlex.join(how)}\n#pragma GCC system_header\n",
                    *(f"#include {name}\n" for name in sorted(names))])
    header = build / f"tidy_{hashlib.sha256(repr(folders).encode()).hexdigest()[:8]}.h"
    library = header.with_suffix(".pch")
    options = ["-include-pch", str(library)]
    if usable(header, text, how):
        return options
    if few:
        return []
    header.write_text(text)
    made = subprocess.run(["clang++-19", *how, "-fpch-instantiate-templates", "-x", "c++-header",
                           str(header), "-o", str(library)], capture_output=True, text=True)
    if made.returncode != 0:
        print(f"not precompiled: headers of {folders}:\n{made.stderr}", flush=True)
    return options if made.returncode == 0 else []


def tidy(scope, path, how):
    run = subprocess.run([*TIDY, f"--load={scope}", str(path), "--", *how], capture_output=True,
                         text=True)
    return run.returncode == 0, run.stdout + ("" if run.stdout else run.stderr)


def check(scope, members, headers):
    """Whether each passed, and what was said of it. Members of one unit are checked as it is
    compiled; each for itself, and with all headers read anew, where that finds something."""
    unit = members[0]["unit"]
    passed, text = tidy(scope, unit["file"], [*flags(unit), *headers])
    if passed:
        return [(passed, text)] * len(members)
    return [tidy(scope, member["file"], flags(unit)) for member in members]


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
    work, users = {}, {}  # by packages: units to be checked, all files
    for path in sorted(files):
        file = files[path]
        folders = packages(file["unit"])
        users.setdefault(folders, []).append(file)
        if not (cache / file["key"]).exists():
            work.setdefault(folders, {}).setdefault(file["unit"]["file"], []).append(file)
    # The largest packages' headers begin first and are used last, and long units come before short
    # ones, so that no core waits.
    failed, scope = 0, built_scope(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        headers = {folders: pool.submit(precompiled, build, folders, users[folders],
                                        len(work[folders]) <= FEW_UNITS)
                   for folders in sorted(work, key=len, reverse=True)}
        checks = [(members, pool.submit(lambda some, how: check(scope, some, how.result()), members,
                                        headers[folders]))
                  for folders in sorted(work, key=len)
                  for members in sorted(work[folders].values(), key=len, reverse=True)]
        for members, results in checks:
            for member, (passed, text) in zip(members, results.result()):
                if passed:
                    (cache / member["key"]).touch()
                else:
                    failed += 1
                    print(f"{pathlib.Path(member['file']).relative_to(ROOT)}:\n{text}", flush=True)
    for stale in set(cache.iterdir()) - {cache / file["key"] for file in files.values()}:
        stale.unlink()
    anew = sum(len(members) for members, _ in checks)
    print(f"clang-tidy: {len(files)} files, {anew} checked anew, {failed} with findings")
    return failed > 0


sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
