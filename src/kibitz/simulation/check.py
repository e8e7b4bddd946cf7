"""`check`: test a policy as `simulate` does before it plays the policy."""

from kibitz.engine.kernel import make_generic_kernel, make_kernel
from kibitz.model.feedback import active
from kibitz.policies.check import check_promises
from kibitz.policies.policy import Policy, check_policy
from kibitz.policies.spec import named_spec


def check(policy: Policy) -> None:
    """Raise ValueError if `simulate` would reject a policy for every problem.

    The functions of your own policy must compile. An index must be finite, non-decreasing in `stage`
    and `mean`, and non-increasing in every count, and it must not modify its arguments. An index
    policy must pull the arm with the largest index and look at the runner-up or at the arms in turn.
    Every policy must choose one of the arms and must not modify the state when it decides. Its
    decisions must be the same whether observations are reported one by one or several at once. The
    test inputs are random but the same in each call. A policy that passes may still break these rules
    for other inputs.

    Parameters
    ----------
    policy
        A policy of kibitz or your own.
    """
    check_promises(check_policy(policy))
    if named_spec(policy) is None and not policy.is_python:
        feedback = active(0.5)
        generic_kernel = make_generic_kernel(policy, feedback, False)
        (generic_kernel or make_kernel(policy, feedback, False, 1)).compile()
