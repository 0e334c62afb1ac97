"""The bar chart of bench/table.py as an SVG that needs nothing else: times over the copy's."""
import html

TITLES = {"kiln": "Kiln", "aten": "ATen", "torch.compile": "torch.compile",
          "foreach": "torch foreach", "fused": "torch fused"}
COLOURS = {"kiln": "#c2410c", "aten": "#94a3b8", "torch.compile": "#3b82f6", "foreach": "#94a3b8",
           "fused": "#64748b"}
OTHER = "#0f766e"
BAR, GAP, TOP = 15, 14, 64


def title_of(source):
    return TITLES.get(source, source)


def text(x, y, words, more=""):
    return f'<text x="{x}" y="{y}" {more}>{html.escape(words)}</text>'


def bars(row, sources, left, y, scale, limit):
    """Those beyond `limit` are cut and say so."""
    parts = []
    for source in sources:
        if source not in row["times"]:
            continue
        over = row["times"][source] / row["copy"]
        width = min(over, limit) * scale
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{BAR - 2}" '
                     f'fill="{COLOURS.get(source, OTHER)}"/>')
        parts.append(text(f"{left + width + 6:.1f}", y + 11,
                          f"{over:.2f}{' (cut)' if over > limit else ''}, "
                          f"{row['times'][source]:.2f} µs", 'font-size="10"'))
        y += BAR
    return parts, y


def legend(sources):
    parts, x = [], 16
    for source in sources:
        parts.append(f'<rect x="{x}" y="38" width="11" height="11" '
                     f'fill="{COLOURS.get(source, OTHER)}"/>')
        parts.append(text(x + 16, 48, title_of(source)))
        x += 40 + 8 * len(title_of(source))
    return parts


def svg(groups, sources, device, limit=4.0, scale=130.0):
    """`groups`: title and named rows, as Figures.shown gives them."""
    longest = max((len(name) for _, rows in groups for name, _ in rows), default=0)
    left, y, parts = max(250, 30 + 7 * longest), TOP, []
    for title, rows in groups:
        parts.append(text(16, y + 12, title, 'font-weight="bold"'))
        y += 22
        for name, row in rows:
            if row["copy"] and row["times"]:
                parts.append(text(left - 10, y + 12, name, 'text-anchor="end"'))
                more, y = bars(row, sources, left, y, scale, limit)
                parts += more
                y += GAP
        y += GAP
    parts += legend(sources)
    parts.append(f'<line x1="{left + scale}" y1="{TOP}" x2="{left + scale}" y2="{y}" '
                 'stroke="#111827" stroke-dasharray="3 3"/>')
    parts.append(text(left + scale, TOP - 6, "copy", 'text-anchor="middle" font-size="10"'))
    parts.append(text(16, 22, f"Time over that of a plain copy of as many bytes, {device}",
                      'font-weight="bold" font-size="14"'))
    width = int(left + limit * scale + 130)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
            f'viewBox="0 0 {width} {y}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{y}" fill="white"/>\n' + "\n".join(parts)
            + "\n</svg>\n")
