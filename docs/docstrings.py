"""Sets what docstrings write as plain text: `O_i` as a formula, `D19` as a link to its erratum."""

import re

LETTER = r"(?:\\bar |\\hat)?(?:\\[A-Za-z]+|[A-Za-zΔΣεμηδτρφ])\*?"
SUBSCRIPT = r"_(?:\{[^}]*\}|[A-Za-z]{1,3}|[ηρεα]|[0-9+*]+)(?:\^\{[^}]*\}|[²³])?"
FORMULA = re.compile(
    rf"(?<![\w`.:\\])({LETTER}{SUBSCRIPT}(?:\([^()\s]*\))?)(?![\w`}}])"
)
WORD = re.compile(r"_([A-Za-z]{2,})")  # as a subscript
POWERS = str.maketrans({"²": "^2", "³": "^3"})
ERRATUM = re.compile(r"(?<![\w`#])D(\d{1,2})(?!\w)")
KEPT = re.compile(r"(``.*?``|:?[\w:]*`[^`]*`|:(?:param|returns|rtype|type)[^:]*:)")


def typeset(line: str, errata: str) -> str:
    """Return a line of a docstring; `errata` is where that page is."""
    apart = KEPT.split(line.replace("docs/errata.md", "errata"))
    for place in range(0, len(apart), 2):
        part = FORMULA.sub(formula, apart[place])
        apart[place] = ERRATUM.sub(rf"`D\1 <{errata}#d\1>`__\\ ", part)
    return "".join(apart)


def formula(found: re.Match[str]) -> str:
    """Return the role of a formula; escaped spaces let anything stand before and after it."""
    apart = found.start() and not found.string[found.start() - 1].isspace()
    text = WORD.sub(r"_{\\text{\1}}", found[1]).replace("*_", "^*_")
    return ("\\ " if apart else "") + f":math:`{text.translate(POWERS)}`\\ "


def process(app, what, name, thing, options, lines: list[str]) -> None:
    """Typeset a docstring (an event of autodoc), but for directives and literal blocks."""
    errata = "../" * app.env.docname.count("/") + "errata.html"
    block = None  # how far such a block is indented, while it goes on
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if block is not None and (not line.strip() or indent > block):
            continue
        opens = line.lstrip().startswith("..") or line.endswith("::")
        block = indent if opens else None
        if not opens:
            lines[number] = typeset(line, errata)


def setup(app) -> dict[str, bool]:
    """Make autodoc call it, after napoleon has read the docstring."""
    app.connect("autodoc-process-docstring", process, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
