"""ASCII replacements for characters that a terminal cannot encode: ε becomes eps."""

import codecs
from typing import TextIO

REPLACEMENTS = {
    "α": "alpha", "Δ": "Delta", "ε": "eps", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma",
    "Σ": "sum", "±": "+-", "∝": "~", "≥": ">=", "≤": "<=", "≈": "~", "∞": "inf", "·": "*", "×": "x",
    "→": "->", "–": "-", "—": "-", "−": "-", "…": "...", "•": "*", "’": "'", "‘": "'", "“": '"',
    "”": '"', "²": "^2", "³": "^3", "é": "e",
    **dict.fromkeys("─━═╌╍╴╶╸╺", "-"),
    **dict.fromkeys("│┃║", "|"),
    **dict(zip("⁰¹⁴⁵⁶⁷⁸⁹⁻", "01456789-", strict=True)),
}  # fmt: skip
HANDLER_NAME = "kibitz-ascii"


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement for characters that cannot be encoded, as `codecs` error handlers do."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    corners = {letter: "+" for letter in letters if "\u2500" <= letter <= "\u257f"}
    return "".join((corners | REPLACEMENTS).get(letter, "?") for letter in letters), error.end


codecs.register_error(HANDLER_NAME, replace_unencodable)


def to_encodable(text: str, stream: TextIO) -> str:
    """Return the text that a stream will print: `text`, with unencodable characters replaced.

    Tables need this text to compute the widths of their columns.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, HANDLER_NAME).decode(encoding)


def set_error_handler(*streams: TextIO) -> None:
    """Make streams replace characters that they cannot encode, instead of raising an error."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not stream.encoding.lower().startswith("utf"):
            reconfigure(errors=HANDLER_NAME)
