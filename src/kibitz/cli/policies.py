"""`kibitz policies`, and policies from their names."""

from typing import Any


def policies() -> None:
    """List the policies, their parameters and defaults, and where in the paper each is."""
    import inspect

    from kibitz.policies import POLICIES

    for name, make in POLICIES.items():
        defaults = inspect.signature(make).parameters.values()
        parameters = ", ".join(f"{p.name}={p.default!r}" for p in defaults)
        print(f"{name}({parameters})\n    {(inspect.getdoc(make) or '').splitlines()[0]}")


def policies_from(specs: list[str]) -> dict[str, Any]:
    """Return the policies that specifications NAME:param=value,... describe, by specification."""
    import inspect

    from kibitz._validation import invalid, short_repr
    from kibitz.cli.parse import read_parameter, read_policy
    from kibitz.policies import POLICIES
    from kibitz.policies.spec import from_spec

    named: dict[str, Any] = {}
    for spec in specs:
        name, words = read_policy(spec, list(POLICIES))
        if spec in named:
            raise ValueError(f"policy must be given once each, got {short_repr(spec)} twice")
        known = inspect.signature(POLICIES[name], eval_str=True).parameters
        for parameter in words:
            if parameter not in known:
                raise invalid(
                    f"parameter of {name}", f"one of {', '.join(known) or 'none'}", parameter
                )
        values = {p: read_parameter(word, known[p].annotation, p) for p, word in words.items()}
        scale = values.pop("scale", None)
        named[spec] = from_spec({"name": name, "parameters": values, "scale": scale})
    return named
