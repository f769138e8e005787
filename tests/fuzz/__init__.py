"""Hostile input, by the hundred thousand: ``python -m tests.fuzz --seconds 30``.

A target knows one kind of file. A case makes one such file, mostly broken, and has the pipeline read it. Three ends are
right: the file is read and is what a slow, independent reading says; it is refused by a SieveError of one line that
names it; nothing else. Tracebacks, signals, hangs, heaps of memory and wrong rows are failures.

Case K of seed S is the same input every time: ``python -m tests.fuzz --only npz --seed S --case K`` repeats it.

judge       what counts as a failure of a case
runner      cases in a process of their own, which is watched and replaced when it dies
mutate      what happens to bytes, text and JSON
rows        rows as a slow reader has them, compared with what the pipeline made of them
reading     what the four file formats share
"""
