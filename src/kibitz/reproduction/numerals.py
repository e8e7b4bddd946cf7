"""How numbers are written on figures, on the page and in verdicts."""

import math


def typeset(x: float) -> str:
    """Write a number as people do: 0.05, 2, 1000, 10⁴, 3·10⁻⁵."""
    if x == 0 or 0.001 <= abs(x) < 10_000:
        return f"{x:.4g}" if abs(x) >= 1000 else f"{x:.3g}"
    exponent = math.floor(math.log10(abs(x)) + 1e-9)
    front = f"{x / 10**exponent:.2g}"
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if front == "1" else f"{front}·10{raised}"
