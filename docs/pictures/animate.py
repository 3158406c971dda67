#!/usr/bin/env python3
"""Draws docs/pictures/attention.svg, the moving picture of the README, from heed's own output.

    heed quickstart --out quickstart 2> quickstart.log
    for word in tired wide; do
      heed inspect quickstart/model --json \\
        --text "The animal didn't cross the street because it was too $word ." > it-$word.json
    done
    docs/pictures/animate.py quickstart.log it-tired.json it-wide.json > docs/pictures/attention.svg

The terminal lines are those that heed printed; the thickness of an arc is the attention weight of the
readout, from "it" to the word. Nothing else moves but what differs between the two sentences.
"""
import html
import json
import re
import sys

WIDTH, HEIGHT = 760, 330
SECONDS = 12  # one loop: the training, then each sentence
TRAINED = 0.30  # when the terminal is done, as a fraction of the loop
SWITCH = 0.65  # when the second sentence appears
CELL = 9.0  # advance of a character of the sentence
INK, QUIET, BLUE, ORANGE = "#1f2937", "#6b7280", "#2563eb", "#d9480f"


def text(x, y, content, size=14, fill=INK, extra=""):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" {extra}>'
            f"{html.escape(content, quote=False)}</text>")


def keyframes(name, points):
    """CSS keyframes of the opacity: points are (fraction of the loop, opacity)."""
    frames = " ".join(f"{100 * at:g}%{{opacity:{value:g}}}" for at, value in points)
    return f"@keyframes {name}{{{frames}}}.{name}{{animation:{name} {SECONDS}s linear infinite}}"


def shown(begin, end):
    """Opacity 1 between two fractions of the loop, with short fades."""
    fade = 0.02
    points = [(0, 1 if begin == 0 else 0)]
    if begin > 0:
        points += [(begin, 0), (begin + fade, 1)]
    points += [(end - fade, 1), (end, 1 if end == 1 else 0)]
    return points + ([(1, 0)] if end < 1 else [])


def terminal(log):
    lines = ["$ ./dev quickstart"]
    steps = [line for line in log if line.startswith("step ")]
    chosen = [steps[0], steps[len(steps) // 3], steps[2 * len(steps) // 3], steps[-1]]
    lines += [" | ".join(step.split(" | ")[:2]) for step in chosen]
    lines.append(next(line for line in log if "sentences with noun pairs" in line).split(",")[0])
    return lines


def sentence(report, at, kind):
    tokens, weights = report["tokens"], report["maps"][0]["values"][0]
    query = tokens.index("it")
    total = sum(len(token) + 1 for token in tokens) * CELL
    left, centres = (WIDTH - total) / 2, []
    parts = []
    target = max(range(len(weights)), key=weights.__getitem__)
    for index, token in enumerate(tokens):
        length = len(token) * CELL
        centres.append(left + length / 2)
        fill = BLUE if index == query else ORANGE if index == target else INK
        weight = 'font-weight="700"' if index in (query, target) else ""
        parts.append(text(left, at, token, 15, fill, f'textLength="{length:g}" font-family="monospace" {weight}'))
        left += length + CELL
    for index, value in enumerate(weights):
        if index == query or value < 1e-3:
            continue
        from_x, to_x = centres[query], centres[index]
        height = 30 + abs(from_x - to_x) * 0.22
        parts.append(f'<path d="M{from_x:g} {at - 20:g} Q{(from_x + to_x) / 2:g} {at - 20 - 1.6 * height:g} '
                     f'{to_x:g} {at - 20:g}" fill="none" stroke="{ORANGE}" stroke-linecap="round" '
                     f'stroke-width="{1 + 6 * value:g}" stroke-opacity="{0.25 + 0.6 * value:g}"/>')
    share = f"{100 * weights[target]:.1f} %"
    parts.append(text(centres[target], at + 22, share, 13, ORANGE, 'text-anchor="middle"'))
    answer = f'"it" is the {tokens[target]}'
    parts.append(text(WIDTH / 2, at + 52, answer, 15, INK, 'text-anchor="middle" font-weight="700"'))
    return f'<g class="{kind}">{"".join(parts)}</g>'


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        log = [line.strip() for line in re.split(r"[\r\n]", file.read())]
    reports = [json.load(open(path, encoding="utf-8")) for path in sys.argv[2:4]]
    lines = terminal(log)
    styles, body = [], []
    for number, line in enumerate(lines):
        begin = TRAINED * number / len(lines)
        styles.append(keyframes(f"line{number}", shown(begin, 1)))
        fill = "#e5e7eb" if line.startswith("$") or number == len(lines) - 1 else "#9ca3af"
        body.append(text(28, 36 + 19 * number, line, 13, fill, f'class="line{number}" font-family="monospace"'))
    styles.append(keyframes("first", shown(TRAINED, SWITCH)))
    styles.append(keyframes("second", shown(SWITCH, 1)))
    # Without animation (prefers-reduced-motion, printing) the first sentence is shown.
    styles.append("@media (prefers-reduced-motion:reduce){*{animation:none!important}.second{opacity:0}}")
    title = "heed quickstart trains a small encoder; from 'it', attention moves from animal to street when tired becomes wide"
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
          f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, \'Noto Sans\', sans-serif">')
    print(f"<title>{title}</title><style>{''.join(styles)}</style>")
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff" stroke="#e5e7eb"/>')
    print(f'<rect x="12" y="12" width="{WIDTH - 24}" height="{22 + 19 * len(lines)}" rx="6" fill="#111827"/>')
    print("\n".join(body))
    print(sentence(reports[0], 262, "first"))
    print(sentence(reports[1], 262, "second"))
    print("</svg>")


main()
