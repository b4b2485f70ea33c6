# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of scripts/bench as Markdown tables and an SVG plot."""
import html
import math
import os
import platform

NAMES = {"files": "scaledefrag-offline", "free": "… --mode free", "layout": "… --mode layout", "shrink": "… --mode shrink",
         "cp": "cp -a", "plan-limit": "plan limit", "copy-limit": "copy limit"}
COLOURS = {"e4defrag": "#c0504d", "cp": "#8064a2", "rsync": "#8064a2"}


def name(method):
    base, _, gap = method.partition(":")
    return NAMES.get(base, base) + (", gaps of %s KiB" % gap if gap else "")


def system(args):
    model = "unknown processor"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
    return "Linux %s, %d × %s; medians of %d" % (".".join(platform.release().split(".")[:2]), os.cpu_count(), model, args.runs)


def number(x):
    return "{:,.0f}".format(x)


def times(x, by):
    return "%.2f×" % (x["seconds"] / by["seconds"]) if by else "-"


def table(s):
    m = s["methods"]
    a = s["aged"]
    plan, copy = (next((v for k, v in m.items() if k.startswith(w)), None) for w in ("plan-limit", "copy-limit"))
    lines = ["**%s**, %d MiB, %s: %s files, %s of them fragmented, in %s runs; a cold recursive read takes %s requests." % (
        s["image"], s["size"] >> 20, "not throttled" if s["throttle"] == "none" else "at most %s requests and %s MB a second each way" % tuple(
            s["throttle"].split(":")), number(a["files"]), number(a["fragmented"]), number(a["runs"]), number(a["cold_reads"])), "",
        "| | s | least to most | × plan limit | × copy limit | read requests | MiB | write requests | MiB | CPU s | peak MiB | left fragmented | cold read requests |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for k, r in m.items():
        lines.append("| %s | %.2f | %.2f to %.2f | %s | %s | %s | %s | %s | %s | %.2f | %s | %s | %s |" % (
            name(k), r["seconds"], r["least"], r["most"], times(r, plan), times(r, copy), number(r["reads"]), number(r["read_bytes"] / 2**20),
            number(r["writes"]), number(r["write_bytes"] / 2**20), r["cpu"], number(r["peak_mib"]),
            number(r["after_fragmented"]) if "after_fragmented" in r else "", number(r["cold_reads"]) if "cold_reads" in r else ""))
    return lines + [""]


def plot(sets, unit="copy-limit"):
    """Bars on a logarithmic scale: seconds over those of the copy limit; whiskers: least to most."""
    def limit(s):
        return next((v["seconds"] for k, v in s["methods"].items() if k.startswith(unit)), 1.0)

    left, width, y, rows = 210, 560, 52, []
    ratios = [r[k] / limit(s) for s in sets for r in s["methods"].values() for k in ("least", "most")] or [1]
    low, high = math.log(min(ratios + [1]) / 1.5), math.log(max(ratios) * 1.1)

    def at(ratio):
        return (math.log(ratio) - low) / (high - low) * width

    for s in sets:
        title = s["image"] + ("" if s["throttle"] == "none" else ", throttled to %s MB/s and %s requests/s" % tuple(s["throttle"].split(":")[::-1]))
        rows.append('<text x="10" y="%d" font-weight="bold">%s</text>' % (y + 12, html.escape(title)))
        y += 20
        for k, r in s["methods"].items():
            x, lo, hi = (at(v / limit(s)) for v in (r["seconds"], r["least"], r["most"]))
            colour = "#9bbb59" if "limit" in k else COLOURS.get(k, "#1f77b4")
            rows.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 6, y + 11, html.escape(name(k))))
            rows.append('<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/>' % (left, y, x, colour))
            rows.append('<path d="M%.1f %dH%.1f" stroke="#333"/>' % (left + lo, y + 6, left + hi))
            rows.append('<text x="%.1f" y="%d">%.2f (%.2f s)</text>' % (left + max(x, hi) + 5, y + 11, r["seconds"] / limit(s), r["seconds"]))
            y += 16
        y += 12
    grid = []
    for mark in (m * 10**e for e in range(-2, 4) for m in (1, 2, 5)):
        if low <= math.log(mark) <= high:
            x = left + at(mark)
            grid.append('<path d="M%.1f 46V%d" stroke="#ddd"/><text x="%.1f" y="42" text-anchor="middle" fill="#777">%g×</text>' % (x, y, x, mark))
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">\n'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n'
            '<text x="10" y="20">Time over that of the copy limit, logarithmic; shorter is better; lines: least to most</text>\n%s\n</svg>\n'
            % (left + width + 110, y, "\n".join(grid + rows)))


def replace_part(path, mark, text):
    begin, end = "<!-- %s -->" % mark, "<!-- end of %s -->" % mark
    with open(path) as f:
        page = f.read()
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    with open(path, "w") as f:
        f.write(head + begin + "\n" + text + "\n" + end + tail)


def write(results, out, docs):
    text = "\n".join([results["system"] + ".", ""] + [x for s in results["sets"] for x in table(s)])
    with open(os.path.join(out, "bench.md"), "w") as f:
        f.write(text)
    for folder in filter(None, (out, docs)):
        with open(os.path.join(folder, "bench.svg"), "w") as f:
            f.write(plot(results["sets"]))
    if docs:
        replace_part(os.path.join(docs, "bench.md"), "scripts/bench", text)
    return text
