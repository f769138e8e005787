"""Source files of every format, read as a stream of blocks.

Each format has one module with a class that follows ``Source``: it knows what can be known before reading (its size,
perhaps its number of features) and yields tasks, in source order, that each return one block. Tasks are independent,
so they can run in parallel; what they hold is bounded by the block size, never by the file.
"""
