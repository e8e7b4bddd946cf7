"""`kibitz policies`: list the policies. This module also parses the option --policy."""

from collections.abc import Sequence
from typing import Any

EXAMPLES = "kibitz policies"


def policies() -> None:
    """List the policies with their parameters, defaults and place in the paper."""
    import inspect
    import textwrap

    from kibitz.policies import POLICIES, max_n

    for name, make_policy in POLICIES.items():
        parameters = inspect.signature(make_policy).parameters.values()
        call_text = f"{name}({', '.join(f'{p.name}={p.default!r}' for p in parameters)})"
        summary = (inspect.getdoc(make_policy) or "").splitlines()[0].removeprefix("Return ")
        print(textwrap.fill(call_text, 80, subsequent_indent=" " * (len(name) + 1)))
        print(textwrap.indent(textwrap.fill(summary, 76), "    "))
    print("max_n(policy), on the command line max_n:ucb")
    summary = (inspect.getdoc(max_n) or "").splitlines()[0].removeprefix("Return ")
    print(textwrap.indent(textwrap.fill(summary, 76), "    "))


def parse_policies(specs: Sequence[str]) -> dict[str, Any]:
    """Return a dict from specs, such as "ucb:exploration=2" or "max_n:ucb", to their policies."""
    import inspect

    from kibitz.cli.option import OptionError, suggest
    from kibitz.policies import POLICIES, max_n
    from kibitz.policies.spec import from_spec

    policies: dict[str, Any] = {}
    for spec in specs:
        if spec in policies:
            raise OptionError(f"--policy {spec} is given twice; give each policy once")
        if spec.startswith("max_n:"):
            inner_spec = spec.removeprefix("max_n:")
            try:
                policies[spec] = max_n(parse_policies([inner_spec])[inner_spec])
            except ValueError as error:
                raise OptionError(f"--policy {spec}: {error}") from None
            continue
        name, value_texts = split_spec(spec, list(POLICIES))
        allowed_parameters = inspect.signature(POLICIES[name], eval_str=True).parameters
        for parameter in value_texts:
            if parameter not in allowed_parameters:
                hint = (
                    suggest(parameter, list(allowed_parameters))
                    or f"; it takes {', '.join(allowed_parameters)}"
                )
                raise OptionError(f"--policy {name} has no parameter {parameter!r}{hint}")
        try:
            values = {
                p: parse_parameter(value_text, allowed_parameters[p].annotation, p)
                for p, value_text in value_texts.items()
            }
            scale = values.pop("scale", None)
            policies[spec] = from_spec({"name": name, "parameters": values, "scale": scale})
        except (ValueError, OptionError) as error:  # the error names a parameter, not a flag
            raise OptionError(f"--policy {name}: {error}") from None
    return policies


def split_spec(spec: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Split NAME:PARAMETER=VALUE,... into the name and a dict of the values, by parameter."""
    from kibitz._validation import short_repr
    from kibitz.cli.option import OptionError, suggest

    name, _, parameters_text = spec.partition(":")
    if name not in names:
        hint = suggest(name, names) or f"; choose one of {', '.join(names)}"
        raise OptionError(f"--policy: unknown policy {short_repr(name)}{hint}")
    parameters: dict[str, str] = {}
    for assignment in filter(None, parameters_text.split(",")):
        parameter, equals_sign, value = assignment.partition("=")
        if not equals_sign or not value:
            expected_form = "NAME or NAME:PARAMETER=VALUE,..."
            raise OptionError(f"--policy must have the form {expected_form}, got {short_repr(spec)}")
        if parameter in parameters:
            raise OptionError(f"--policy {name}: {parameter} is given twice in {short_repr(spec)}")
        parameters[parameter] = value
    return name, parameters


def parse_parameter(value_text: str, annotation: Any, name: str) -> Any:
    """Parse the value of a policy's parameter, as its annotation says: bool, float, int or str."""
    from kibitz.cli.option import parse_bool, parse_integer, parse_number

    value_types = getattr(annotation, "__args__", (annotation,))  # the types in `int | None`
    if bool in value_types:
        return parse_bool(value_text, name)
    if float in value_types:
        return parse_number(value_text, name)
    return parse_integer(value_text, name) if int in value_types else value_text
