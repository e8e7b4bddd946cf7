"""The experiments of `kibitz reproduce --part changes`: what happens if the means of the arms change.

Each experiment is a module as described in `kibitz.reproduction.experiments`. ε is the rate of looks,
K the number of arms and T the number of stages.
"""

from kibitz.reproduction.changes import bucket, delays, false_alarms, four_changes, kinds

EXPERIMENTS = (four_changes, kinds, delays, bucket, false_alarms)
