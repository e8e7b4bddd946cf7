"""Predict how much regret looks save, and plan how many looks to buy."""
