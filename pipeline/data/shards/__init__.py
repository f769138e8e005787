"""Shards: Arrow files that are memory-mapped, and the directory they stand in."""
