"""Predict what free looks save, and plan how many to buy."""
