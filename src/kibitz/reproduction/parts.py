"""The parts of `kibitz reproduce`: each part is a set of experiments with its own report.

To add a part, write its experiments as modules of a package, as described in
`kibitz.reproduction.experiments`, and add a `Part` to `PARTS`. The number of an experiment is its
position in the part.
"""

from types import ModuleType
from typing import NamedTuple

from kibitz.reproduction import changes, graphs
from kibitz.reproduction.experiments import OUR_EXPERIMENTS, PAPER_EXPERIMENTS

PAPER_CITATION = (
    "Rémy Degenne, Evrard Garcelon and Vianney Perchet, “Bandits with Side Observations: Bounded vs. "
    "Logarithmic Regret”, UAI 2018"
)


class Group(NamedTuple):
    """Experiments that the report shows under one heading."""

    title: str
    text: str
    experiments: tuple[ModuleType, ...]


class Part(NamedTuple):
    """Experiments with their own report, and the title and the introduction of the report."""

    title: str
    introduction: str
    groups: dict[str, Group]

    @property
    def numbered(self) -> dict[int, ModuleType]:
        """The experiments of all groups by number."""
        experiments = [module for group in self.groups.values() for module in group.experiments]
        return dict(enumerate(experiments, start=1))

    def find_group(self, module: ModuleType) -> str:
        """Return the name of the group of an experiment."""
        return next(name for name, group in self.groups.items() if module in group.experiments)


#: The part that runs by default.
PAPER = "paper"
PARTS = {
    PAPER: Part(
        "Bandits with side observations, reproduced",
        f"{PAPER_CITATION}. This report repeats its experiments and tests its claims with",
        {
            "paper": Group(
                "The paper’s experiments", "The figures of the paper’s section 5.", PAPER_EXPERIMENTS
            ),
            "ours": Group(
                "Our experiments",
                "Claims that the paper makes without a figure, and comparisons that are not in the "
                "paper.",
                OUR_EXPERIMENTS,
            ),
        },
    ),
    "graphs": Part(
        "Side observations on graphs",
        "A pull of an arm also shows other arms. This report tests what that changes, with",
        {
            "graphs": Group(
                "Experiments on graphs",
                "A graph is a matrix: a pull of arm i shows arm j with probability Q(i, j).",
                graphs.EXPERIMENTS,
            )
        },
    ),
    "changes": Part(
        "Means that change",
        "The means of the arms change with time, and looks make the changes visible. This report "
        "tests how soon they are detected, and at what cost, with",
        {
            "changes": Group(
                "Experiments with changes",
                "The regret at a stage is the loss against the arm that is the best at this stage.",
                changes.EXPERIMENTS,
            )
        },
    ),
}
