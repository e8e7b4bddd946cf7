"""What is proved about bandits with free observations, as functions."""
