"""From source files to shards."""
