#!/usr/bin/env python3
"""Merges the JSON reports of bench/rows, bench/adamw, bench/routed, bench/errors and of the peers,
bench/peers_*.py, into one Markdown text: times a shape and weighted by share, with ratios to the
best peer and to the copy, what is slower than ATen, and errors beside ATen's. With --json=FILE also
as JSON, with --svg=FILE as a bar chart.

  python3 bench/table.py rows.json peers.json errors.json [--out=FILE.md] [--json=FILE]
                         [--svg=FILE.svg] [--title=TEXT]

Rows that agree in what, shape, dtype and direction are one. The copy is the fastest that any report
has of the same work. Needs Python only.
"""
import argparse
import json

from chart import TITLES, svg, title_of

OWN, ATEN = "kiln", "aten"
NOISE = 0.02  # a share by which times of the same kernel may differ


def one_line(text):
    return " ".join(text.split())


class Figures:
    """Times of all reports by dtype and direction, then shape, then source."""

    def __init__(self, reports):
        self.reports = reports
        self.groups, self.sources = {}, []
        for report in reports:
            for line in report.get("timings", []):
                self.add(line)
        order = list(TITLES)
        self.sources.sort(key=lambda s: order.index(s) if s in order else len(order))

    def add(self, line):
        group = self.groups.setdefault((line["dtype"], line["direction"]), {})
        row = group.setdefault((line["what"], line["shape"]),
                               {"share": None, "copy": None, "times": {}, "trouble": {}})
        row["share"] = row["share"] or line.get("share")
        if line["source"] not in self.sources:
            self.sources.append(line["source"])
        if "microseconds" not in line:
            row["trouble"][line["source"]] = line.get("trouble", "no time")
            return
        row["times"][line["source"]] = line["microseconds"]
        row["copy"] = min(filter(None, (row["copy"], line.get("copy_us"))), default=None)

    def sources_of(self, group):
        rows = self.groups[group].values()
        return [source for source in self.sources
                if any(source in row["times"] or source in row["trouble"] for row in rows)]

    def weighted(self, group):
        """As one more row; a source that lacks a shape is left out. None: rows have no shares."""
        rows = self.groups[group].values()
        if not all(row["share"] for row in rows):
            return None
        share = sum(row["share"] for row in rows)
        mean = lambda values: sum(r["share"] * v for r, v in zip(rows, values)) / share
        times = {source: mean([row["times"][source] for row in rows]) for source in self.sources
                 if all(source in row["times"] for row in rows)}
        copies = [row["copy"] for row in rows]
        return {"share": share, "copy": mean(copies) if all(copies) else None, "times": times,
                "trouble": {}}

    def beside_aten(self):
        """How many cells have both, and those where Kiln is slower than ATen, with the ratio."""
        ratios = [(title_of_group(group), f"{what} {shape}", row["times"][OWN] / row["times"][ATEN])
                  for group, rows in self.groups.items() for (what, shape), row in rows.items()
                  if OWN in row["times"] and ATEN in row["times"]]
        return len(ratios), [cell for cell in ratios if cell[2] > 1 + NOISE]

    def titled(self):
        """Title and named rows of each group, the weighted row first."""
        for group, rows in self.groups.items():
            named = [("weighted", self.weighted(group))] if self.weighted(group) else []
            named += [(f"{what} {shape}", row) for (what, shape), row in rows.items()]
            yield title_of_group(group), [
                (f"{name} ({row['share']:.1%})" if row["share"] else name, row)
                for name, row in named]

    def as_json(self):
        """One object a row, the weighted ones among them as what = "weighted"."""
        lines = []
        for (dtype, direction), rows in self.groups.items():
            weighted = self.weighted((dtype, direction))
            more = {("weighted", "-"): weighted} if weighted else {}
            for (what, shape), row in {**rows, **more}.items():
                own, peer = row["times"].get(OWN), best_peer(row)
                over = lambda other: own / other if own and other else None
                lines.append({"what": what, "shape": shape, "dtype": dtype, "direction": direction,
                              "share": row["share"], "microseconds": row["times"],
                              "trouble": row["trouble"], "copy_us": row["copy"],
                              "ratio_to_best_peer": over(peer),
                              "ratio_to_copy": over(row["copy"])})
        count, slower = self.beside_aten()
        return {"reports": [{key: value for key, value in report.items()
                             if not isinstance(value, list)} for report in self.reports],
                "rows": lines,
                "beside_aten": {"cells": count, "slower": [
                    {"group": group, "name": name, "ratio": over} for group, name, over in slower]}}


def title_of_group(group):
    dtype, direction = group
    return f"{direction}, as the files say" if dtype == "-" else f"{dtype} {direction}"


def best_peer(row):
    peers = [time for source, time in row["times"].items() if source != OWN]
    return min(peers, default=None)


def ratio(own, other):
    return f"{own / other:.3f}" if own and other else "-"


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def cells(name, row, sources):
    micros = lambda value: f"{value:.2f}" if value else "-"
    own = row["times"].get(OWN)
    return [name, f"{row['share']:.2%}" if row["share"] else "-",
            *(micros(row["times"].get(s)) for s in sources), micros(row["copy"]),
            ratio(own, best_peer(row)), ratio(own, row["copy"])]


def times_text(figures):
    lines = []
    for group, rows in figures.groups.items():
        sources, weighted = figures.sources_of(group), figures.weighted(group)
        lines += ["", f"## {title_of_group(group)} (µs)", ""]
        body = [cells(f"{what} {shape}", row, sources) for (what, shape), row in rows.items()]
        if weighted:
            body.append([f"**{cell}**" for cell in cells("weighted", weighted, sources)])
        lines += markdown_table(["shape", "share", *map(title_of, sources), "copy",
                                 "Kiln : best peer", "Kiln : copy"], body)
        lines += [f"\n{title_of(source)}, {what} {shape}: {one_line(why)}"
                  for (what, shape), row in rows.items() for source, why in row["trouble"].items()]
    return lines


def beside_aten_text(figures):
    count, slower = figures.beside_aten()
    if count == 0:
        return []
    lines = ["", "## Kiln beside ATen", "",
             f"{len(slower)} of {count} cells are slower than ATen by more than {NOISE:.0%}."]
    if not slower:
        return lines
    rows = [[f"{name}, {group}", f"{over:.3f}"] for group, name, over in slower]
    return [*lines, "", *markdown_table(["cell", "Kiln : ATen"], rows)]


def errors_text(reports):
    found, sources = {}, []
    for report in reports:
        for line in report.get("errors", []):
            if "output" not in line:
                continue
            if line["source"] not in sources:
                sources.append(line["source"])
            key = tuple(line[k] for k in ("dtype", "direction", "what", "shape", "output"))
            found.setdefault(key, {})[line["source"]] = line
    if not found:
        return []
    sources.sort(key=lambda source: source != OWN)
    rows = []
    for (dtype, direction, what, shape, output), by in found.items():
        number = lambda s, key: f"{by[s][key]:.3g}" if s in by else "-"
        peers = [line["rms"] for source, line in by.items() if source != OWN]
        own = by.get(OWN, {}).get("rms")
        verdict = "-"
        if own is not None and peers:
            verdict = "yes" if own <= min(peers) else f"{own / min(peers):.3f}×" if min(peers) \
                else "no"
        rows.append([f"{what} {shape} {dtype} {direction}: {output}",
                     *(number(s, key) for key in ("rms", "max_abs") for s in sources), verdict])
    titles = [f"{key} {title_of(s)}" for key in ("rms", "largest") for s in sources]
    return ["", "## Error against fp64, same inputs", "",
            "The root mean square over all elements, and the largest, which is that of one element.",
            "", *markdown_table(["output", *titles, "rms at most the peer's"], rows)]


def read_reports(paths):
    reports = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    return reports


def origin_text(reports, title):
    lines = [f"# {title}", ""]
    for report in reports:
        lines.append(f"- {report['version']}, {report['device']}, {report['date']}: "
                     f"`{report['command']}`")
    devices = {r["device"] for r in reports if r.get("timings")}
    if len(devices) > 1:
        lines.append(f"- **Times of different devices are mixed here: {', '.join(devices)}**")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--title", default="Row kernels")
    given = parser.parse_args()
    reports = read_reports(given.reports)
    figures = Figures(reports)
    text = "\n".join(origin_text(reports, given.title) + times_text(figures)
                     + beside_aten_text(figures) + errors_text(reports)) + "\n"
    device = next((r["device"] for r in reports if r.get("timings")), "none")
    wanted = {given.out: lambda: text, given.svg: lambda: svg([*figures.titled()],
                                                              figures.sources, device),
              given.json: lambda: json.dumps(figures.as_json(), indent=2) + "\n"}
    if not given.out:
        print(text, end="")
    for path, content in wanted.items():
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content())


if __name__ == "__main__":
    main()
