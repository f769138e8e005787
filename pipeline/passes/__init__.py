"""The passes over a data set that everything else is made of."""
