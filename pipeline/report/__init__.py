"""What a person wants to see: pages of runs and of stores, and single figures, from what is on disk alone."""
