"""The labels of policies in a result."""

from collections.abc import Iterable, Mapping

from kibitz._validation import refused
from kibitz.policies.policy import Policy
from kibitz.policies.spec import label_of

Policies = Policy | Iterable[Policy] | Mapping[str, Policy]


def labelled(policies: Policies, by_name: bool = False) -> dict[str, Policy]:
    """Return policies by label: the name, with the parameters that are not the default ones."""
    if isinstance(policies, Policy | str | bytes):  # a name is refused as a whole
        policies = [policies]
    try:
        given = policies if isinstance(policies, Mapping) else dict(enumerate(policies))
    except TypeError:  # nothing to go through
        raise refused("policies", "policies such as ucb()", policies) from None
    for policy in given.values():
        if not isinstance(policy, Policy):
            raise refused("policies", "policies such as ucb()", policy)
    if isinstance(policies, Mapping):
        named = {str(label): policy for label, policy in policies.items()}
    else:
        named = {}
        for policy in given.values():
            label = policy.name if by_name else label_of(policy)
            if label in named:
                raise ValueError(
                    f"policies must have different labels (give them as a dict), got {label!r} twice"
                )
            named[label] = policy
    if not named:
        raise ValueError("policies must be at least one policy, got none")
    return named
