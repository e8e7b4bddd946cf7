"""`kibitz policies`: list the policies. This module also parses the option --policy."""

from collections.abc import Sequence
from typing import Any

EXAMPLES = "kibitz policies"


def policies() -> None:
    """List the policies with their parameters, defaults and place in the paper."""
    import inspect
    import textwrap

    from kibitz.policies import POLICIES

    for name, make in POLICIES.items():
        defaults = inspect.signature(make).parameters.values()
        call = f"{name}({', '.join(f'{p.name}={p.default!r}' for p in defaults)})"
        summary = (inspect.getdoc(make) or "").splitlines()[0].removeprefix("Return ")
        print(textwrap.fill(call, 80, subsequent_indent=" " * (len(name) + 1)))
        print(textwrap.indent(textwrap.fill(summary, 76), "    "))


def parse_policies(specs: Sequence[str]) -> dict[str, Any]:
    """Return a dict of the policies described by specs such as "ucb:exploration=2", by spec."""
    import inspect

    from kibitz.cli.option import OptionError, suggest
    from kibitz.policies import POLICIES
    from kibitz.policies.spec import from_spec

    parsed: dict[str, Any] = {}
    for spec in specs:
        name, words = split_spec(spec, list(POLICIES))
        if spec in parsed:
            raise OptionError(f"--policy {spec} is given twice; give each policy once")
        known = inspect.signature(POLICIES[name], eval_str=True).parameters
        for parameter in words:
            if parameter not in known:
                hint = suggest(parameter, list(known)) or f"; it takes {', '.join(known)}"
                raise OptionError(f"--policy {name} has no parameter {parameter!r}{hint}")
        try:
            values = {p: parse_parameter(word, known[p].annotation, p) for p, word in words.items()}
            scale = values.pop("scale", None)
            parsed[spec] = from_spec({"name": name, "parameters": values, "scale": scale})
        except (ValueError, OptionError) as error:  # the error names a parameter, not a flag
            raise OptionError(f"--policy {name}: {error}") from None
    return parsed


def split_spec(spec: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Split NAME:PARAMETER=VALUE,... into the name and a dict of the values, by parameter."""
    from kibitz._validation import short_repr
    from kibitz.cli.option import OptionError, suggest

    name, _, rest = spec.partition(":")
    if name not in names:
        hint = suggest(name, names) or f"; choose one of {', '.join(names)}"
        raise OptionError(f"--policy: unknown policy {short_repr(name)}{hint}")
    parameters: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        parameter, equals, value = part.partition("=")
        if not equals or not value:
            form = "NAME or NAME:PARAMETER=VALUE,..."
            raise OptionError(f"--policy must have the form {form}, got {short_repr(spec)}")
        if parameter in parameters:
            raise OptionError(f"--policy {name}: {parameter} is given twice, got {short_repr(spec)}")
        parameters[parameter] = value
    return name, parameters


def parse_parameter(word: str, annotation: Any, name: str) -> Any:
    """Parse the value of a policy's parameter, as its annotation says: bool, float, int or str."""
    from kibitz.cli.option import parse_bool, parse_integer, parse_number

    kinds = getattr(annotation, "__args__", (annotation,))  # the types in `int | None`
    if bool in kinds:
        return parse_bool(word, name)
    if float in kinds:
        return parse_number(word, name)
    return parse_integer(word, name) if int in kinds else word
