"""Typeset docstrings for Sphinx: formulas such as `O_i`, and links to errata such as `D19`.

Also shorten the types of parameters, and show public objects under their public names:
`kibitz.simulate` instead of the module that defines it.
"""

import re
from functools import cache, update_wrapper
from pathlib import Path

ERRATA = Path(__file__).parent / "errata"

LETTER = r"(?:\\bar |\\hat)?(?:\\[A-Za-z]+|max|εT?[pΔ]|Z̄|[A-Za-zΔΣΦεμηδτρφ])\*?"
SUBSCRIPT = (
    r"_(?:\{[^}]*\}|[A-Za-z]{1,3}|[ηρεαΔ]|[0-9+*]+)(?:\^\{[^}]*\}|\^[0-9]|[²³])?"
)
POWER = r"[A-Za-z0-9]\^(?:\{[^}]*\}|\([^)]*\)|[A-Za-z0-9])"
FORMULA = re.compile(
    rf"(?<![\w`.:\\])((?:{LETTER}{SUBSCRIPT}|{POWER})(?:\([^()\s]*\))?)(?![\w`}}])"
)
WORD_SUBSCRIPT = re.compile(r"_([A-Za-z]{2,})")
POWERS = str.maketrans({"²": "^2", "³": "^3"})
ERRATUM = re.compile(r"(?<![\w`#])D(\d{1,2})(?!\w)")
ERRATA_PATH = re.compile(r"docs/errata(?:\.md|/index\.md|/|\b)")
# NumPy spells out everything that can be converted to an array.
ARRAY_LIKE = re.compile(
    r"(?:~?[\w.]*Buffer \| )?~?[\w.]*_SupportsArray\[.*_NestedSequence\[[^]]*\]"
)
ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[[^]]*\], ~?(?:numpy\.)?dtype\[[^]]*\]\]"
)
OPEN_ROLE = re.compile(r":?[\w:]*`[^`]*$")
LITERAL = re.compile(
    r"(``.*?``|:?[\w:]*`[^`]*`|:(?:param|returns|rtype|type)[^:]*:)"
)


@cache
def find_errata() -> dict[str, str]:
    """Return a dict from the number of each erratum to the name of its page."""
    return {
        number: page.stem
        for page in sorted(ERRATA.glob("*.md"))
        if page.stem != "index"
        for number in re.findall(
            r'<a id="d(\d+)"></a>', page.read_text(encoding="utf-8")
        )
    }


def typeset(line: str, root: str) -> str:
    """Return a line of a docstring as reStructuredText.

    `root` is the relative path from the page to the root of the site.
    """
    parts = LITERAL.split(ERRATA_PATH.sub("errata", line))
    for position in range(0, len(parts), 2):
        part = FORMULA.sub(as_math_role, parts[position])
        parts[position] = ERRATUM.sub(lambda match: as_link(match[1], root), part)
    return "".join(parts)


def as_link(number: str, root: str) -> str:
    """Return a link to an erratum."""
    page = find_errata()[number]
    return f"`D{number} <{root}errata/{page}.html#d{number}>`__\\ "


def as_math_role(match: re.Match[str]) -> str:
    """Return the math role of a formula, with escaped spaces next to adjoining text."""
    adjoins = match.start() and not match.string[match.start() - 1].isspace()
    text = WORD_SUBSCRIPT.sub(r"_{\\text{\1}}", match[1]).replace("*_", "^*_")
    text = re.sub(r"\^\(([^)]*)\)", r"^{\1}", text)
    text = text.replace("max_", r"\max_").replace("Z̄", r"\bar Z")
    return ("\\ " if adjoins else "") + f":math:`{text.translate(POWERS)}`\\ "


def shorten_type(annotation: str) -> str:
    """Return a type with `array` and `array_like` in place of NumPy's long names."""
    return ARRAY.sub("array", ARRAY_LIKE.sub("array_like", annotation))


def shorten_types(app, what, name, *unused) -> None:
    """Shorten the types of parameters and drop `Any` (`autodoc-process-signature`)."""
    annotations = app.env.temp_data.get("annotations", {}).get(name, {})
    for parameter, annotation in list(annotations.items()):
        annotations[parameter] = shorten_type(annotation)
        if "Any" in annotation.replace("dtype[~typing.Any]", ""):
            del annotations[parameter]


def hide_source_of_sweep(app) -> None:
    """Make Sphinx show the signature that `sweep` gets at import (`builder-inited`).

    Sphinx would otherwise read the signature from the source, which lacks the default values.
    """
    import kibitz.simulation.sweep as module

    def sweep(*arguments, **options): ...

    update_wrapper(sweep, module.sweep)
    del sweep.__wrapped__
    module.sweep = sweep


def process_docstring(
    app, what, name, documented_object, options, lines: list[str]
) -> None:
    """Typeset a docstring, except directives and literal blocks."""
    root = "../" * app.env.docname.count("/")
    block_indent = (
        None  # the indent of the directive or literal block around the line
    )
    in_role = False  # whether the previous line opened a role that this line closes
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(":type:"):
            lines[number] = shorten_type(line)
        if block_indent is not None and (not line.strip() or indent > block_indent):
            continue
        opens_block = line.lstrip().startswith("..") or line.endswith("::")
        block_indent = indent if opens_block else None
        if not opens_block:
            before_quote, quote, after_quote = (
                line.partition("`") if in_role else ("", "", line)
            )
            opened_role = (
                OPEN_ROLE.search(after_quote)
                if after_quote.count("`") % 2
                else None
            )
            end = opened_role.start() if opened_role else len(after_quote)
            in_role = bool(opened_role) or (in_role and not quote)
            lines[number] = (
                before_quote
                + quote
                + typeset(after_quote[:end], root)
                + after_quote[end:]
            )


def show_public_names(app, doctree) -> None:
    """Show the module of each public object as `kibitz` (`doctree-read`)."""
    from docutils import nodes
    from sphinx import addnodes

    import kibitz
    from kibitz.policies import POLICIES

    public_names = {*kibitz.__all__, *POLICIES}
    for signature in doctree.findall(addnodes.desc_signature):
        name = signature.get("fullname")
        module = f"{signature.get('module')}."
        if name in public_names and not module.startswith("kibitz.bounds."):
            for prefix in signature.findall(addnodes.desc_addname):
                if prefix.astext() == module:
                    prefix[:] = [nodes.Text("kibitz.")]


def setup(app) -> dict[str, bool]:
    """Register this file as a Sphinx extension; it runs after napoleon."""
    app.connect("autodoc-process-docstring", process_docstring, priority=900)
    app.connect("autodoc-process-signature", shorten_types, priority=900)
    app.connect("builder-inited", hide_source_of_sweep)
    app.connect("doctree-read", show_public_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
