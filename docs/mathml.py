"""Render formulas as MathML with an embedded font, so that pages work without a network.

`latex2mathml` converts the formulas when the pages are built. Browsers need a font with a table of
mathematical constants to lay MathML out well, and many systems have none. The style sheet therefore
contains the glyphs of STIX Two Math that formulas use (SIL Open Font License, from the package
`ziamath`) as data. A separate font file would not work, because some browsers load no font files for
pages that are opened from a folder.
"""

import base64
import io
import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from docutils.nodes import SkipNode, Text, math
from fontTools import subset
from latex2mathml.converter import convert

CODE_POINTS = (
    (0x20, 0x7E), (0xA0, 0xFF), (0x2C6, 0x2DC), (0x300, 0x338), (0x391, 0x3F6), (0x2010, 0x205F),
    (0x2061, 0x2064), (0x20D0, 0x20D7), (0x2100, 0x214F), (0x2190, 0x21D5), (0x2200, 0x22FF),
    (0x2308, 0x230B), (0x23B0, 0x23E1), (0x27E6, 0x27EF), (0x2A00, 0x2A0F), (0x2A7D, 0x2A7E),
    (0x1D434, 0x1D467), (0x1D49C, 0x1D4CF), (0x1D538, 0x1D56B), (0x1D6E2, 0x1D71B),
)  # fmt: skip
# docutils leaves a null character and a space in the place of an escaped space
PUNCTUATION = re.compile(r"(?:\0 )?([.,;:?!)\]]+)")
MAX_INLINE_LENGTH = 24  # characters of TeX that fit on a line of a phone
STYLESHEET = """@font-face {{
  font-family: "STIX Two Math of kibitz";
  src: url("data:font/woff;base64,{font}") format("woff");
}}
math {{
  font-family: "STIX Two Math of kibitz", "STIX Two Math", "Cambria Math", math;
  font-size: 1.1em;
}}
"""


def make_font() -> bytes:
    """Return a WOFF font with the glyphs that formulas use."""
    options = subset.Options(
        flavor="woff", layout_features=["ssty"], notdef_outline=True
    )
    options.drop_tables += ["DSIG"]
    path = files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
    font = subset.load_font(str(path), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(
        unicodes=[
            code for first, last in CODE_POINTS for code in range(first, last + 1)
        ]
    )
    subsetter.subset(font)
    narrow_roots(font)
    buffer = io.BytesIO()
    subset.save_font(font, buffer, options)
    return buffer.getvalue()


def narrow_roots(font) -> None:
    """Give all root signs the width of the smallest sign.

    Chromium otherwise reserves the width of the largest sign for every root.
    """
    glyphs, widths = font["glyf"], font["hmtx"]
    root = font.getBestCmap()[0x221A]
    for name in font.getGlyphOrder():
        if name.startswith(f"{root}."):
            ratio = widths[root][0] / widths[name][0]
            glyph = glyphs[name]
            glyph.coordinates.scale((ratio, 1))
            glyph.coordinates.toInt()
            glyph.recalcBounds(glyphs)
            widths[name] = (widths[root][0], glyph.xMin)


def write_stylesheet(target: Path) -> None:
    """Write the style sheet with the font unless it exists."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            STYLESHEET.format(font=base64.b64encode(make_font()).decode()),
            encoding="utf-8",
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
}  # in display style their subscript is set below them
OPENING, CLOSING = "([{⌊⌈", ")]}⌋⌉"
THIN_SPACE = "0.167em"


def to_mathml(formula: str, display: str) -> str:
    """Return the MathML of a formula, spaced as TeX would."""
    root = ElementTree.fromstring(
        convert(formula.strip(), xmlns="", display=display)
    )
    for parent in list(root.iter()):
        for child in parent:
            fix_element(child)
        if display == "block" and parent.tag == "msub" and parent[0].text in LIMITS:
            parent.tag = "munder"
    for row in list(root.iter()):
        if row.tag in ("mrow", "math"):
            add_spaces(row)
    return ElementTree.tostring(root, encoding="unicode")


def fix_element(element: ElementTree.Element) -> None:
    """Rewrite an element of `latex2mathml` for MathML Core."""
    element.text = text = (element.text or "").removeprefix("\\")
    if element.tag in ("msub", "msup", "msubsup") and element[0].get("minsize"):
        # Without a row, a large bracket with an exponent would be drawn small.
        base = ElementTree.Element("mrow")
        base.extend([element[0], ElementTree.Element("mi")])
        fix_element(element[0])
        element[0] = base
    elif element.tag == "mover" and element[1].text == "¯":
        element.set("accent", "true")
        element[1].set("stretchy", "false")
    elif text == "∞" or text in FUNCTIONS:
        element.tag = "mi"
    elif element.get("mathvariant") == "script":
        del element.attrib["mathvariant"]
        element.text = "".join(
            chr(0x1D49C + ord(letter) - ord("A")) for letter in text
        )
    elif element.tag == "mi" and "Α" <= text <= "Ω":  # upright, as in TeX
        element.set("mathvariant", "normal")
    elif text == "/":
        element.attrib.update(lspace="0", rspace="0")
    elif text == ":":
        element.tag = "mo"
    elif text and text in OPENING + CLOSING:
        element.tag = "mo"
        element.set("form", "prefix" if text in OPENING else "postfix")
        element.set(
            "stretchy",
            "true" if element.get("minsize") else element.get("stretchy", "false"),
        )


def add_spaces(row: ElementTree.Element) -> None:
    """Add thin spaces around functions, and remove spaces after signs and inside bars."""
    parts = list(row)
    for number, bar in enumerate(part for part in parts if part.text == "|"):
        bar.set("form", "postfix" if number % 2 else "prefix")
    for position in reversed(range(len(parts))):
        core = parts[position]
        if core.text in ("−", "+") and position and parts[position - 1].tag == "mo":
            core.set(
                "form", "infix" if parts[position - 1].text in CLOSING else "prefix"
            )
        while core.tag in ("msub", "msup", "msubsup", "munder"):
            core = core[0]
        if core.text not in FUNCTIONS:
            continue
        after, before = (
            parts[position + 1 : position + 2],
            parts[max(position - 1, 0) : position],
        )
        if after and after[0].tag not in ("mo", "mspace"):
            row.insert(
                position + 1, ElementTree.Element("mspace", width=THIN_SPACE)
            )
        if before and (
            before[0].tag not in ("mo", "mspace") or before[0].text in CLOSING
        ):
            row.insert(position, ElementTree.Element("mspace", width=THIN_SPACE))


def write_inline(writer, node) -> None:
    """Write an inline formula; a long formula scrolls, because browsers do not break it."""
    text = node.astext()
    formula = to_mathml(text, "inline")
    if len(text) > MAX_INLINE_LENGTH:
        formula = f'<span class="math-long">{formula}</span>'
    if "punctuation" in node:
        formula = f'<span class="math-stop">{formula}{node["punctuation"]}</span>'
    writer.body.append(formula)
    raise SkipNode


def write_block(writer, node) -> None:
    """Write a displayed formula."""
    writer.body.append(
        f'<div class="math-block">{to_mathml(node.astext(), "block")}</div>\n'
    )
    raise SkipNode


def attach_punctuation(app, document, page_name) -> None:
    """Move the punctuation after each inline formula into the formula's node.

    Otherwise, browsers may break the line between the formula and the punctuation.
    """
    for node in document.findall(math):
        following = node.next_node(descend=False, siblings=True)
        if isinstance(following, Text) and (found := PUNCTUATION.match(following)):
            node["punctuation"] = found[1]
            node.parent.replace(following, Text(following[found.end() :]))


def setup(app) -> dict[str, bool]:
    """Register this file as a Sphinx extension."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.connect("doctree-resolved", attach_punctuation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
