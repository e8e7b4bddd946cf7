"""`kibitz policies`, and policies from their names."""

from typing import Any, NamedTuple


class Listed(NamedTuple):
    """A policy as it is listed: a test holds it equal to its constructor."""

    name: str
    parameters: str  # with defaults
    sentence: str  # the first of its docstring


#: Importing the policies would mean to wait for numba.
LISTED = (
    Listed("ftl", "scale=None", "Return Follow The Leader (section 2.1.1)."),
    Listed(
        "ftl_robin",
        "scale=None",
        "Return FTL-robin: follow the leader and look at each arm in turn (section 2.2).",
    ),
    Listed(
        "ucb",
        "exploration=6.0, ignore_free=False, scale=None",
        "Return UCB with passive observations (Algorithm 1).",
    ),
    Listed(
        "ucb_double",
        "exploration=6.0, scale=None",
        "Return UCB1-Double: UCB, looking at the arm of second largest index (section 4.2.1).",
    ),
    Listed(
        "ucb_second",
        "exploration=6.0, scale=None",
        "Return UCB with a second UCB over the other arms that chooses the look (section 5).",
    ),
    Listed(
        "ocucb", "eta=2.0, rho=0.5, ignore_free=False, scale=None", "Return OCUCB-n (section 4.2)."
    ),
    Listed(
        "etc",
        "alpha=1.0, horizon=None, scale=None",
        "Return Explore-Then-Commit by itself (Algorithm 3).",
    ),
    Listed(
        "etc_ocucb",
        "p=2.0, C=10.0, alpha=1.0, rho=0.5, eta=2.0, restart=False, check='rounds', all_info=False, "
        "scale=None",
        "Return ETC-OCUCB (Algorithm 2), ETC-OCUCB-2 or one of the all-info variants (section 5).",
    ),
    Listed("ucb2", "alpha=0.001, scale=None", "Return UCB2 (section 4.1)."),
    Listed("improved_ucb", "horizon=None, scale=None", "Return Improved UCB (section 4.1)."),
    Listed("moss", "exploration=4.0, horizon=None, scale=None", "Return MOSS (section 4.1)."),
    Listed(
        "moss_anytime",
        "exploration=4.7, scale=None",
        "Return MOSS-anytime: MOSS with the stage in place of the horizon (section 4.1).",
    ),
    Listed("kl_ucb", "law='gaussian', c=0.0, scale=None", "Return KL-UCB; not in the paper."),
    Listed("thompson", "law='gaussian', scale=None", "Return Thompson sampling; not in the paper."),
    Listed(
        "kibitzer",
        "b=8.0, beta=1.0, law='gaussian', scale=None",
        "Return kibitzer, our own policy; not in the paper.",
    ),
)


def policies() -> None:
    """List the policies, their parameters and defaults, and where in the paper each is."""
    for name, parameters, sentence in LISTED:
        print(f"{name}({parameters})\n    {sentence}")


def policies_from(specs: list[str]) -> dict[str, Any]:
    """Return the policies that specifications NAME:param=value,... describe, by specification."""
    import inspect

    from kibitz._validation import quoted, refused
    from kibitz.cli.parse import read_parameter, read_policy

    names = [listed.name for listed in LISTED]
    read = [read_policy(spec, names) for spec in specs]
    from kibitz.policies import POLICIES  # takes a second: after what can be refused without

    made: dict[str, Any] = {}
    for spec, (name, given) in zip(specs, read, strict=True):
        if spec in made:
            raise ValueError(f"policy must be given once each, got {quoted(spec)} twice")
        known = inspect.signature(POLICIES[name], eval_str=True).parameters
        for parameter in given:
            if parameter not in known:
                raise refused(
                    f"parameter of {name}", f"one of {', '.join(known) or 'none'}", parameter
                )
        values = {
            parameter: read_parameter(word, known[parameter].annotation, parameter)
            for parameter, word in given.items()
        }
        made[spec] = POLICIES[name](**values)
    return made
