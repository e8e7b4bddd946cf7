"""Formulas as MathML, with a font of their own: nothing is fetched when a page is opened.

`latex2mathml` writes the MathML when the pages are built. Browsers need a font with a table of
mathematical constants to set it well; many systems have none, so the part of STIX Two Math that
formulas use (SIL Open Font License, from the package `ziamath`) goes into a style sheet as data: a
font in a file of its own is refused by some browsers when pages are opened from a folder.
"""

import base64
import io
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from fontTools import subset
from latex2mathml.converter import convert

RANGES = (
    (0x20, 0x7E), (0xA0, 0xFF), (0x2C6, 0x2DC), (0x300, 0x338), (0x391, 0x3F6), (0x2010, 0x205F),
    (0x2061, 0x2064), (0x20D0, 0x20D7), (0x2100, 0x214F), (0x2190, 0x21D5), (0x2200, 0x22FF),
    (0x2308, 0x230B), (0x23B0, 0x23E1), (0x27E6, 0x27EF), (0x2A00, 0x2A0F), (0x2A7D, 0x2A7E),
    (0x1D434, 0x1D467), (0x1D49C, 0x1D4CF), (0x1D538, 0x1D56B), (0x1D6E2, 0x1D71B),
)  # fmt: skip
LONG = 24  # letters of TeX, from which on a formula may not fit on a line of a telephone
SHEET = """@font-face {{
  font-family: "STIX Two Math of kibitz";
  src: url("data:font/woff;base64,{font}") format("woff");
}}
math {{
  font-family: "STIX Two Math of kibitz", "STIX Two Math", "Cambria Math", math;
  font-size: 1.1em;
}}
"""


def font() -> bytes:
    """Return the glyphs that formulas use, as WOFF."""
    options = subset.Options(
        flavor="woff", layout_features=["ssty"], notdef_outline=True
    )
    options.drop_tables += ["DSIG"]
    path = files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
    opened = subset.load_font(str(path), options)
    cut = subset.Subsetter(options)
    cut.populate(
        unicodes=[code for first, last in RANGES for code in range(first, last + 1)]
    )
    cut.subset(opened)
    narrow_roots(opened)
    written = io.BytesIO()
    subset.save_font(opened, written, options)
    return written.getvalue()


def narrow_roots(opened) -> None:
    """Make tall root signs as narrow as the smallest: Chromium leaves room for the widest of them."""
    glyphs, widths = opened["glyf"], opened["hmtx"]
    root = opened.getBestCmap()[0x221A]
    for name in opened.getGlyphOrder():
        if name.startswith(f"{root}."):
            share = widths[root][0] / widths[name][0]
            glyph = glyphs[name]
            glyph.coordinates.scale((share, 1))
            glyph.coordinates.toInt()
            glyph.recalcBounds(glyphs)
            widths[name] = (widths[root][0], glyph.xMin)


def write_sheet(target: Path) -> None:
    """Write the style sheet of the font, unless it is there."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            SHEET.format(font=base64.b64encode(font()).decode()), encoding="utf-8"
        )


FUNCTIONS = {
    "log",
    "exp",
    "tanh",
    "min",
    "max",
    "sup",
    "inf",
    "lim",
    "lim\u2006sup",
    "arg",
}
LIMITS = {
    "min",
    "max",
    "sup",
    "inf",
    "lim",
    "lim\u2006sup",
}  # what stands below them when displayed
OPENING, CLOSING = "([{⌊⌈", ")]}⌋⌉"
THIN = "0.167em"


def markup(formula: str, display: str) -> str:
    """Return the MathML of a formula, as `latex2mathml` writes it and then as TeX would space it."""
    root = ElementTree.fromstring(
        convert(formula.strip(), xmlns="", display=display)
    )
    for parent in list(root.iter()):
        for child in parent:
            settle(child)
        if display == "block" and parent.tag == "msub" and parent[0].text in LIMITS:
            parent.tag = "munder"
    for row in list(root.iter()):
        if row.tag in ("mrow", "math"):
            space(row)
    return ElementTree.tostring(root, encoding="unicode")


def settle(one: ElementTree.Element) -> None:
    """Make one element what MathML Core takes it for."""
    one.text = text = (one.text or "").removeprefix("\\")
    if one.tag in ("msub", "msup", "msubsup") and one[0].get("minsize"):
        base = ElementTree.Element(
            "mrow"
        )  # else a large bracket with an exponent is a small one
        base.extend([one[0], ElementTree.Element("mi")])
        settle(one[0])
        one[0] = base
    elif one.tag == "mover" and one[1].text == "¯":
        one.set("accent", "true")
        one[1].set("stretchy", "false")
    elif text == "∞" or text in FUNCTIONS:
        one.tag = "mi"
    elif one.get("mathvariant") == "script":
        del one.attrib["mathvariant"]
        one.text = "".join(chr(0x1D49C + ord(letter) - ord("A")) for letter in text)
    elif one.tag == "mi" and "Α" <= text <= "Ω":  # upright, as in TeX
        one.set("mathvariant", "normal")
    elif text == "/":
        one.attrib.update(lspace="0", rspace="0")
    elif text == ":":
        one.tag = "mo"
    elif text and text in OPENING + CLOSING:
        one.tag = "mo"
        one.set("form", "prefix" if text in OPENING else "postfix")
        one.set(
            "stretchy",
            "true" if one.get("minsize") else one.get("stretchy", "false"),
        )


def space(row: ElementTree.Element) -> None:
    """Set functions off from their neighbours, and signs and bars close to what they belong to."""
    parts = list(row)
    for number, bar in enumerate(part for part in parts if part.text == "|"):
        bar.set("form", "postfix" if number % 2 else "prefix")
    for place in reversed(range(len(parts))):
        core = parts[place]
        if core.text in ("−", "+") and place and parts[place - 1].tag == "mo":
            core.set(
                "form", "infix" if parts[place - 1].text in CLOSING else "prefix"
            )
        while core.tag in ("msub", "msup", "msubsup", "munder"):
            core = core[0]
        if core.text not in FUNCTIONS:
            continue
        after, before = (
            parts[place + 1 : place + 2],
            parts[max(place - 1, 0) : place],
        )
        if after and after[0].tag not in ("mo", "mspace"):
            row.insert(place + 1, ElementTree.Element("mspace", width=THIN))
        if before and (
            before[0].tag not in ("mo", "mspace") or before[0].text in CLOSING
        ):
            row.insert(place, ElementTree.Element("mspace", width=THIN))


def inline(writer, node) -> None:
    """Write a formula inside of a line; a long one can be scrolled, as no browser breaks it."""
    text = node.astext()
    made = markup(text, "inline")
    is_long = len(text) > LONG
    writer.body.append(
        f'<span class="math-long">{made}</span>' if is_long else made
    )
    raise SkipNode


def block(writer, node) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(
        f'<div class="math-block">{markup(node.astext(), "block")}</div>\n'
    )
    raise SkipNode


def setup(app) -> dict[str, bool]:
    """Make Sphinx use it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
