"""Latency histograms, in the terminal and as SVG. A series is (title, [[microseconds, count], …]) with logarithmic bins."""
import html
import math

BINS_A_DECADE = 12
RARE = 1e-3
TICKS = {0: 1, 4: 2, 8: 5}  # bin in its decade -> the number that it begins at, rounded
BLOCKS = " ▁▂▃▄▅▆▇█"
COLOURS = ("#8a8f98", "#d08a2e", "#4a90d9", "#2e8b57", "#a05195")


def bin_of(microseconds):
    return round(BINS_A_DECADE * math.log10(microseconds))


def shares(series):
    """[(title, {bin: share})], first bin, last bin; rare ones, below one in a thousand, are left out."""
    out = []
    for title, histogram in series:
        total = sum(count for _, count in histogram) or 1
        out.append((title, {bin_of(us): count / total for us, count in histogram}))
    seen = [bin for _, values in out for bin, share in values.items() if share >= RARE]
    return out, min(seen), max(seen)


def label(bin):
    us = 10 ** (bin / BINS_A_DECADE)
    return f"{us:.0f}us" if us < 1000 else f"{us / 1000:.0f}ms"


def ticks(first, last):
    """(bin, text) at 1, 2 and 5 of each decade."""
    found = []
    for bin in range(first, last + 1):
        decade, rest = divmod(bin, BINS_A_DECADE)
        if rest in TICKS:
            us = TICKS[rest] * 10 ** decade
            found.append((bin, f"{us} us" if us < 1000 else f"{us // 1000} ms"))
    return found


def terminal(series):
    values, first, last = shares(series)
    highest = max(share for _, by_bin in values for share in by_bin.values())
    lines = []
    for title, by_bin in values:
        bars = ""
        for bin in range(first, last + 1):
            share = by_bin.get(bin, 0)
            height = math.ceil(share / highest * 8) if share >= RARE else 0
            bars += BLOCKS[min(8, height)]
        lines.append(f"{title:>26} |{bars}|")
    axis = [" "] * (last - first + 8)
    free = 0
    for bin, text in ticks(first, last):
        if bin - first >= free:
            axis[bin - first:bin - first + len(text)] = text
            free = bin - first + len(text) + 1
    return "\n".join(lines + [" " * 28 + "".join(axis).rstrip()])


def svg(series, title):
    values, first, last = shares(series)
    highest = max(share for _, by_bin in values for share in by_bin.values())
    left, top, step, row = 190, 50, max(8, 640 // (last - first + 1)), 90
    width, height = left + step * (last - first + 1) + 30, top + row * len(values) + 50
    bottom = top + row * len(values)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="26" font-size="16">{html.escape(title)}</text>']
    for bin, text in ticks(first, last):
        x = left + step * (bin - first)
        parts.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#ddd"/>'
                     f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{text}</text>')
    for number, (name, by_bin) in enumerate(values):
        base = top + row * (number + 1)
        parts.append(f'<text x="{left - 10}" y="{base - 4}" text-anchor="end">{html.escape(name)}</text>'
                     f'<line x1="{left}" y1="{base}" x2="{width - 30}" y2="{base}" stroke="#999"/>')
        for bin, share in sorted(by_bin.items()):
            if first <= bin <= last:
                bar = max(1, share / highest * (row - 14))
                parts.append(f'<rect x="{left + step * (bin - first)}" y="{base - bar:.1f}" width="{step - 1}" height="{bar:.1f}" '
                             f'fill="{COLOURS[number % len(COLOURS)]}"><title>{label(bin)}: {share:.1%}</title></rect>')
    parts.append(f'<text x="{left}" y="{bottom + 40}" fill="#555">time of one lookup, logarithmic; height: share of the lookups</text></svg>')
    return "\n".join(parts) + "\n"
