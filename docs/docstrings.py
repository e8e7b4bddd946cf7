"""Sets what docstrings write as plain text: `O_i` as a formula, `D19` as a link to its erratum.

And names what is public as its users do: `kibitz.simulate`, not by the file that it is in.
"""

import re
from functools import update_wrapper

LETTER = r"(?:\\bar |\\hat)?(?:\\[A-Za-z]+|max|εT?[pΔ]|Z̄|[A-Za-zΔΣΦεμηδτρφ])\*?"
SUBSCRIPT = (
    r"_(?:\{[^}]*\}|[A-Za-z]{1,3}|[ηρεαΔ]|[0-9+*]+)(?:\^\{[^}]*\}|\^[0-9]|[²³])?"
)
POWER = r"[A-Za-z0-9]\^(?:\{[^}]*\}|\([^)]*\)|[A-Za-z0-9])"
FORMULA = re.compile(
    rf"(?<![\w`.:\\])((?:{LETTER}{SUBSCRIPT}|{POWER})(?:\([^()\s]*\))?)(?![\w`}}])"
)
WORD = re.compile(r"_([A-Za-z]{2,})")  # as a subscript
POWERS = str.maketrans({"²": "^2", "³": "^3"})
ERRATUM = re.compile(r"(?<![\w`#])D(\d{1,2})(?!\w)")
ANY_ARRAY = re.compile(
    r"(?:~?[\w.]*Buffer \| )?~?[\w.]*_SupportsArray\[.*_NestedSequence\[[^]]*\]"
)
ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[[^]]*\], ~?(?:numpy\.)?dtype\[[^]]*\]\]"
)
OPEN = re.compile(r":?[\w:]*`[^`]*$")
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
    text = re.sub(r"\^\(([^)]*)\)", r"^{\1}", text)
    text = text.replace("max_", r"\max_").replace("Z̄", r"\bar Z")
    return ("\\ " if apart else "") + f":math:`{text.translate(POWERS)}`\\ "


def short(annotation: str) -> str:
    """Return a type as one would say it: NumPy spells out what an array may be made from."""
    return ARRAY.sub("array", ANY_ARRAY.sub("array_like", annotation))


def shorten(app, what, name, *rest) -> None:
    """Shorten the types of parameters, and drop what says nothing (an event of autodoc)."""
    found = app.env.temp_data.get("annotations", {}).get(name, {})
    for parameter, annotation in list(found.items()):
        found[parameter] = short(annotation)
        if "Any" in annotation.replace("dtype[~typing.Any]", ""):
            del found[parameter]


def hide_source(app) -> None:
    """Let Sphinx show the signature that `sweep` has (an event of Sphinx).

    Sphinx looks up defaults in the source, where those of the options are not.
    """
    import kibitz.simulation.sweep as module

    def sweep(*arguments, **options): ...

    update_wrapper(sweep, module.sweep)
    del sweep.__wrapped__
    module.sweep = sweep


def process(app, what, name, thing, options, lines: list[str]) -> None:
    """Typeset a docstring (an event of autodoc), but for directives and literal blocks."""
    errata = "../" * app.env.docname.count("/") + "errata.html"
    block = None  # how far such a block is indented, while it goes on
    goes_on = False  # a role of the line before, up to its closing mark
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(":type:"):
            lines[number] = short(line)
        if block is not None and (not line.strip() or indent > block):
            continue
        opens = line.lstrip().startswith("..") or line.endswith("::")
        block = indent if opens else None
        if not opens:
            done, mark, rest = line.partition("`") if goes_on else ("", "", line)
            last = OPEN.search(rest) if rest.count("`") % 2 else None
            end = last.start() if last else len(rest)
            goes_on = bool(last) or (goes_on and not mark)
            lines[number] = done + mark + typeset(rest[:end], errata) + rest[end:]


def public(app, doctree) -> None:
    """Show `kibitz.` and the name of what `kibitz` exports (an event of Sphinx)."""
    from docutils import nodes
    from sphinx import addnodes

    import kibitz
    from kibitz.policies import POLICIES

    exported = {*kibitz.__all__, *POLICIES}
    for signature in doctree.findall(addnodes.desc_signature):
        name = signature.get("fullname")
        home = f"{signature.get('module')}."
        if name in exported and not home.startswith("kibitz.bounds."):
            for prefix in signature.findall(addnodes.desc_addname):
                if prefix.astext() == home:
                    prefix[:] = [nodes.Text("kibitz.")]


def setup(app) -> dict[str, bool]:
    """Make autodoc call it, after napoleon has read the docstring, and Sphinx call the other."""
    app.connect("autodoc-process-docstring", process, priority=900)
    app.connect("autodoc-process-signature", shorten, priority=900)
    app.connect("builder-inited", hide_source)
    app.connect("doctree-read", public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
