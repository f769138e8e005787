"""The rows that are being solved for: which fit, where they are held, and the solver over them."""
