"""Run directories: what is in them, reading and writing."""
