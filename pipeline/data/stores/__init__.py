"""Shards behind URLs."""
