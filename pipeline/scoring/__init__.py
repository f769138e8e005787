"""What a model says of rows that are to be scored."""
