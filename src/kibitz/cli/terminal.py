"""Letters for terminals that do not know ours: ε becomes eps, a line a hyphen."""

import codecs
from typing import TextIO

SPELLED = {
    "α": "alpha", "Δ": "Delta", "ε": "eps", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma",
    "Σ": "sum", "±": "+-", "∝": "~", "≥": ">=", "≤": "<=", "≈": "~", "∞": "inf", "·": "*", "×": "x",
    "→": "->", "–": "-", "—": "-", "−": "-", "…": "...", "•": "*", "’": "'", "‘": "'", "“": '"',
    "”": '"', "²": "^2", "³": "^3", "é": "e",
    **dict.fromkeys("─━═╌╍╴╶╸╺", "-"),
    **dict.fromkeys("│┃║", "|"),
    **dict(zip("⁰¹⁴⁵⁶⁷⁸⁹⁻", "01456789-", strict=True)),
}  # fmt: skip


def spell(error: UnicodeError) -> tuple[str, int]:
    """Say in ASCII what an encoding does not have; an error handler as `codecs` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    corner = {letter: "+" for letter in letters if "\u2500" <= letter <= "\u257f"}
    return "".join((corner | SPELLED).get(letter, "?") for letter in letters), error.end


codecs.register_error("spell", spell)


def spelled(text: str, stream: TextIO) -> str:
    """Return a text in letters that a stream can take, for tables that must know its width."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "spell").decode(encoding)


def speak_its_language(*streams: TextIO) -> None:
    """Let streams spell what they cannot encode, instead of failing."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not stream.encoding.lower().startswith("utf"):
            reconfigure(errors="spell")
