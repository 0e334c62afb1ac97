#!/usr/bin/env python3
"""Merges the JSON reports of bench/rows, bench/errors and bench/peers_rows.py into one Markdown
text: times a shape and weighted, with ratios to the best peer and to the copy, and errors beside
ATen's. With --svg=FILE also a bar chart, a picture that needs nothing else.

  python3 bench/table.py rows.json peers.json errors.json [--out=FILE.md] [--svg=FILE.svg]

The copy is the fastest that any report has of the same work. Needs Python only.
"""
import argparse
import html
import json

OWN = "kiln"
TITLES = {"kiln": "Kiln", "aten": "ATen", "torch.compile": "torch.compile"}
COLOURS = {"kiln": "#c2410c", "aten": "#94a3b8", "torch.compile": "#3b82f6"}


def title_of(source):
    return TITLES.get(source, source)


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
                               {"share": line["share"], "copy": None, "times": {}, "trouble": {}})
        if line["source"] not in self.sources:
            self.sources.append(line["source"])
        if "microseconds" not in line:
            row["trouble"][line["source"]] = line.get("trouble", "no time")
            return
        row["times"][line["source"]] = line["microseconds"]
        row["copy"] = min(filter(None, (row["copy"], line["copy_us"])))

    def weighted(self, group):
        """As one more row; a source that lacks a shape is left out."""
        rows = self.groups[group].values()
        share = sum(row["share"] for row in rows)
        mean = lambda values: sum(r["share"] * v for r, v in zip(rows, values)) / share
        times = {source: mean([row["times"][source] for row in rows]) for source in self.sources
                 if all(source in row["times"] for row in rows)}
        copies = [row["copy"] for row in rows]
        return {"share": share, "copy": mean(copies) if all(copies) else None, "times": times,
                "trouble": {}}


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
    return [name, f"{row['share']:.2%}", *(micros(row["times"].get(s)) for s in sources),
            micros(row["copy"]), ratio(own, best_peer(row)), ratio(own, row["copy"])]


def times_text(figures):
    head = ["shape", "share", *(title_of(s) for s in figures.sources), "copy",
            "Kiln : best peer", "Kiln : copy"]
    lines = []
    for group, rows in figures.groups.items():
        dtype, direction = group
        lines += ["", f"## {dtype} {direction} (µs)", ""]
        body = [cells(f"{what} {shape}", row, figures.sources)
                for (what, shape), row in rows.items()]
        body.append(["**" + cell + "**" for cell in
                     cells("weighted", figures.weighted(group), figures.sources)])
        lines += markdown_table(head, body)
        lines += [f"\n{title_of(source)}, {what} {shape}: {one_line(why)}"
                  for (what, shape), row in rows.items() for source, why in row["trouble"].items()]
    return lines


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


def origin_text(reports):
    lines = ["# Row kernels", ""]
    for report in reports:
        lines.append(f"- {report['version']}, {report['device']}, {report['date']}: "
                     f"`{report['command']}`")
    devices = {r["device"] for r in reports if r.get("timings")}
    if len(devices) > 1:
        lines.append(f"- **Times of different devices are mixed here: {', '.join(devices)}**")
    return lines


def svg(figures, limit=4.0):
    """Bars of time over the copy's; those beyond `limit` are cut and say so by their number."""
    left, bar, gap, scale, top = 250, 15, 14, 130.0, 64
    parts, y = [], top
    text = lambda x, y, words, more="": parts.append(
        f'<text x="{x}" y="{y}" {more}>{html.escape(words)}</text>')
    for group, rows in figures.groups.items():
        text(16, y + 12, f"{group[0]} {group[1]}", 'font-weight="bold"')
        y += 22
        named = [("weighted", figures.weighted(group))]
        named += [(f"{what} {shape}", row) for (what, shape), row in rows.items()]
        for name, row in named:
            if not row["copy"] or not row["times"]:
                continue
            text(left - 10, y + 12, f"{name} ({row['share']:.1%})", 'text-anchor="end"')
            for source in figures.sources:
                if source not in row["times"]:
                    continue
                over = row["times"][source] / row["copy"]
                width = min(over, limit) * scale
                colour = COLOURS.get(source, "#64748b")
                parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 2}" '
                             f'fill="{colour}"/>')
                text(f"{left + width + 6:.1f}", y + 11,
                     f"{over:.2f}{' (cut)' if over > limit else ''}, {row['times'][source]:.2f} µs",
                     'font-size="10"')
                y += bar
            y += gap
        y += gap
    x = 16
    for source in figures.sources:
        parts.append(f'<rect x="{x}" y="38" width="11" height="11" '
                     f'fill="{COLOURS.get(source, "#64748b")}"/>')
        text(x + 16, 48, title_of(source))
        x += 40 + 8 * len(title_of(source))
    parts.append(f'<line x1="{left + scale}" y1="{top}" x2="{left + scale}" y2="{y}" '
                 'stroke="#111827" stroke-dasharray="3 3"/>')
    text(left + scale, top - 6, "copy", 'text-anchor="middle" font-size="10"')
    device = next((r["device"] for r in figures.reports if r.get("timings")), "")
    text(16, 22, f"Time over that of a plain copy of as many bytes, {device}",
         'font-weight="bold" font-size="14"')
    width = int(left + limit * scale + 130)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
            f'viewBox="0 0 {width} {y}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{y}" fill="white"/>\n' + "\n".join(parts)
            + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out")
    parser.add_argument("--svg")
    given = parser.parse_args()
    reports = []
    for path in given.reports:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    figures = Figures(reports)
    text = "\n".join(origin_text(reports) + times_text(figures) + errors_text(reports)) + "\n"
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    if given.svg:
        with open(given.svg, "w", encoding="utf-8") as file:
            file.write(svg(figures))


if __name__ == "__main__":
    main()
