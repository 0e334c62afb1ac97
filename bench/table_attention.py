#!/usr/bin/env python3
"""Joins the JSON reports of bench/attention and bench/peers_attention.py into one Markdown text: of
language models TFLOP/s with Kiln's ratio to the best peer and its geometric mean, of AlphaFold's
shapes microseconds, and Kiln's kernels one by one.

  python3 bench/table_attention.py kiln.json peers.json ... [--out=FILE.md] [--title=TEXT]

Needs Python only.
"""
import argparse
import math

from table import OWN, one_line, origin_text, read_reports

NAMES = {OWN: "Kiln", "cudnn": "cuDNN", "fa4": "FA4", "aten flash": "ATen flash", "aten": "eager",
         "sdpa": "SDPA", "flex": "FlexAttention"}


def row_of(line):
    causal = "causal" in line.get("settings", {})
    return line["what"], line["shape"], causal, line["direction"]


def rows_of(reports):
    """Lines by row and source, in the order of the reports."""
    rows = {}
    for report in reports:
        for line in report["timings"]:
            rows.setdefault(row_of(line), {})[line["source"]] = line
    return rows


def best_peer(lines):
    return min((line["microseconds"] for source, line in lines.items()
                if source != OWN and "microseconds" in line), default=None)


def ratio(lines):
    """How much faster than the best peer; None without one of both."""
    peer, own = best_peer(lines), lines.get(OWN, {}).get("microseconds")
    return peer / own if peer and own else None


def cell(lines, source, figure):
    line = lines.get(source)
    if not line:
        return ""
    value = line.get(figure)
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def name_of(row):
    what, shape, causal, _ = row
    return f"{'' if what == 'attention' else what + ' '}{shape}{' causal' if causal else ''}"


def table(rows, direction, figure, unit):
    chosen = {row: lines for row, lines in rows.items() if row[3] == direction}
    sources = [s for s in NAMES if any(s in lines for lines in chosen.values())]
    sources += sorted({s for lines in chosen.values() for s in lines} - set(sources))
    text = [f"\n## {direction}, {unit}\n",
            "| | " + " | ".join([*(NAMES.get(s, s) for s in sources), "Kiln over best peer"]) + " |",
            "|---|" + "---:|" * (len(sources) + 1)]
    for row, lines in chosen.items():
        over = ratio(lines)
        text.append("| " + " | ".join([name_of(row), *(cell(lines, s, figure) for s in sources),
                                       f"{over:.2f}" if over else "-"]) + " |")
    ratios = [r for r in map(ratio, chosen.values()) if r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = sum(r < 1 for r in ratios)
        text.append(f"\nGeometric mean {mean:.3f} of {len(ratios)} cells; {below} are below 1.")
    return text


def parts(rows):
    text = ["\n## Kiln's kernels, µs\n", "| | | schedule | registers |", "|---|---:|---|---:|"]
    for row, lines in rows.items():
        own = lines.get(OWN, {})
        times = own.get("parts_us", [own.get("microseconds")])
        kernels = own.get("kernels", [])
        for i in range(max(len(kernels), len(times) if kernels else 0)):
            kernel = kernels[i] if i < len(kernels) else {}
            time = times[i] if i < len(times) and times[i] else None
            name = f"{name_of(row)} {row[3]}" if i == 0 else ""
            text.append(f"| {name} | {f'{time:.1f}' if time else '-'} | "
                        f"{kernel.get('schedule', '')} | {kernel.get('registers', '')} |")
    return text


def troubles(rows):
    return [f"\n{NAMES.get(source, source)}, {name_of(row)} {row[3]}: "
            f"{one_line(line['trouble'])}"
            for row, lines in rows.items() for source, line in lines.items() if "trouble" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out")
    parser.add_argument("--title", default="Attention")
    given = parser.parse_args()
    reports = read_reports(given.reports)
    text = origin_text(reports, given.title)
    rows = rows_of(reports)
    models = {row: lines for row, lines in rows.items() if row[0] == "attention"}
    others = {row: lines for row, lines in rows.items() if row[0] != "attention"}
    for group, figure, unit in ((models, "TFLOPs", "TFLOP/s"), (others, "microseconds", "µs")):
        for direction in ("forward", "backward"):
            if any(row[3] == direction for row in group):
                text += table(group, direction, figure, unit)
    text = "\n".join(text + parts(rows) + troubles(rows)) + "\n"
    if not given.out:
        print(text, end="")
        return
    with open(given.out, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
