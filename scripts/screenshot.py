#!/usr/bin/env python3
"""Draws what `tmux capture-pane -e -p -N` prints as an SVG: the pictures in docs/images.

    tmux capture-pane -e -p -N | scripts/screenshot.py --title 'stageloadctl top' -o docs/images/top.svg

Knows the 16 colours, their 256-colour and true-colour forms, bold, dim, underline and reverse. Block
characters are drawn as rectangles, so that a graph has no seams whatever font the reader has.
"""
import argparse
import html
import re
import sys
import unicodedata

CELL_WIDTH, CELL_HEIGHT, BASELINE = 8, 18, 13.5
MARGIN, TITLE_HEIGHT = 12, 28
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BACKGROUND, FOREGROUND = "#16181d", "#d4d7dd"
PALETTE = [
    "#2a2e37", "#e05f65", "#78b96f", "#dba842", "#6a9bdc", "#b786d6", "#54b3ba", "#d4d7dd",
    "#757c8a", "#f2777c", "#93d28a", "#efc263", "#86b3ef", "#cfa2eb", "#72ccd3", "#ffffff",
]
SGR = re.compile(r"\x1b\[([0-9;:]*)m")
OTHER_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-ln-z]|[()][A-Z0-9]|[\x0e\x0f])")


def colour_256(index):
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        level = 8 + 10 * (index - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    steps = (0, 95, 135, 175, 215, 255)
    index -= 16
    return "#" + "".join(f"{steps[index // d % 6]:02x}" for d in (36, 6, 1))


class Style:
    def __init__(self):
        self.reset()

    def reset(self):
        self.ink = self.paper = None
        self.bold = self.dim = self.underline = self.reverse = False

    def extended(self, codes):
        """The colour after 38 or 48; takes its codes away."""
        if codes[:1] == [5]:
            index = codes[1]
            del codes[:2]
            return colour_256(index)
        red, green, blue = codes[1:4]
        del codes[:4]
        return f"#{red:02x}{green:02x}{blue:02x}"

    def apply(self, text):
        codes = [int(code or 0) for code in re.split("[;:]", text)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 2, 4, 7):
                setattr(self, {1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code in (24, 27):
                setattr(self, {24: "underline", 27: "reverse"}[code], False)
            elif code in (38, 48):
                setattr(self, "ink" if code == 38 else "paper", self.extended(codes))
            elif code in (39, 49):
                setattr(self, "ink" if code == 39 else "paper", None)
            elif 30 <= code <= 37:
                self.ink = PALETTE[code - 30]
            elif 40 <= code <= 47:
                self.paper = PALETTE[code - 40]
            elif 90 <= code <= 97:
                self.ink = PALETTE[code - 82]
            elif 100 <= code <= 107:
                self.paper = PALETTE[code - 92]

    def key(self):
        ink, paper = self.ink or FOREGROUND, self.paper
        if self.reverse:
            ink, paper = paper or BACKGROUND, ink
        return ink, paper, self.bold, self.dim, self.underline


def width_of(character):
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cells_of(line, style):
    """(column, text, width, style) for each place of the screen."""
    cells, column, at = [], 0, 0
    line = OTHER_ESCAPE.sub("", line)
    while at < len(line):
        escape = SGR.match(line, at)
        if escape:
            style.apply(escape.group(1))
            at = escape.end()
            continue
        width = width_of(line[at])
        if width == 0 and cells:
            place, text, wide, key = cells[-1]
            cells[-1] = (place, text + line[at], wide, key)
        else:
            cells.append((column, line[at], width, style.key()))
            column += width
        at += 1
    return cells, column


def block(character):
    """A block element's part of its cell, as left, top, width, height from 0 to 1."""
    code = ord(character[0])
    if 0x2581 <= code <= 0x2588:
        height = (code - 0x2580) / 8
        return 0, 1 - height, 1, height
    if 0x2589 <= code <= 0x258F:
        return 0, 0, (0x2590 - code) / 8, 1
    return None


def rectangle(x, y, width, height, colour, more=""):
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'fill="{colour}"{more}/>')


def runs_of(cells):
    """Neighbours of one style that are drawn alike, joined."""
    runs = []
    for column, text, width, key in cells:
        kind = block(text)
        joins = (runs and runs[-1]["key"] == key and runs[-1]["kind"] == kind
                 and runs[-1]["column"] + runs[-1]["width"] == column
                 and (kind is None or kind[2] == 1))
        # Wide characters stand alone: their font is another one, and would shift the rest.
        if joins and width == 1 and not runs[-1]["wide"]:
            runs[-1]["text"] += text
            runs[-1]["width"] += width
        else:
            runs.append({"column": column, "text": text, "width": width, "key": key,
                         "kind": kind, "wide": width != 1})
    return runs


def draw_line(cells, top):
    shapes = []
    for run in runs_of(cells):
        ink, paper, bold, dim, underline = run["key"]
        left, width = MARGIN + run["column"] * CELL_WIDTH, run["width"] * CELL_WIDTH
        if paper:
            shapes.append(rectangle(left, top, width, CELL_HEIGHT, paper))
        opacity = ' opacity="0.6"' if dim else ""
        if run["kind"]:
            x, y, share, height = run["kind"]
            shapes.append(rectangle(left + x * width, top + y * CELL_HEIGHT, width * share,
                                    height * CELL_HEIGHT, ink, opacity))
        elif run["text"].strip():
            weight = ' font-weight="bold"' if bold else ""
            line = ' text-decoration="underline"' if underline else ""
            shapes.append(
                f'<text x="{left:.1f}" y="{top + BASELINE:.1f}" textLength="{width:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" fill="{ink}"{weight}{line}{opacity} '
                f'xml:space="preserve">{html.escape(run["text"])}</text>')
    return shapes


def draw(text, title):
    style, shapes, columns = Style(), [], 1
    lines = text.rstrip("\n").split("\n")
    for row, line in enumerate(lines):
        cells, width = cells_of(line, style)
        columns = max(columns, width)
        shapes += draw_line(cells, TITLE_HEIGHT + MARGIN / 2 + row * CELL_HEIGHT)
    width = 2 * MARGIN + columns * CELL_WIDTH
    height = TITLE_HEIGHT + MARGIN * 1.5 + len(lines) * CELL_HEIGHT
    frame = [f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    for index, colour in enumerate(("#e05f65", "#dba842", "#78b96f")):
        frame.append(f'<circle shape-rendering="auto" cx="{18 + 18 * index}" cy="16" r="5.5" fill="{colour}"/>')
    frame.append(f'<text x="{width / 2:.0f}" y="20.5" text-anchor="middle" fill="#9aa1ad">'
                 f'{html.escape(title)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" shape-rendering="crispEdges" font-family="{FONT}" font-size="13.3" '
            f'role="img" aria-label="{html.escape(title)}">\n'
            + "\n".join(frame + shapes) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input", nargs="?", help="a file with the screen; stdin when left out")
    parser.add_argument("-o", "--output", required=True, help="the SVG")
    parser.add_argument("--title", default="", help="stands above the screen")
    options = parser.parse_args()
    source = open(options.input, encoding="utf-8") if options.input else sys.stdin
    with source, open(options.output, "w", encoding="utf-8") as output:
        output.write(draw(source.read(), options.title))


if __name__ == "__main__":
    main()
