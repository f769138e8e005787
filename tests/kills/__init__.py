"""Kill -9 at random moments: ``python -m tests.kills [--kills 1000] [--seed S] [--only path,classes,append,nightly]``.

A command runs in a process forked from one that has everything loaded, and is killed at a moment drawn evenly from
the time that it takes undisturbed. After every kill what must hold at any moment is looked at. After one to three of
them in a row the command runs to its end, and all that is there then is compared with what it left undisturbed: nothing
is lost, every bit is the same. Exit code 1 if not.
"""
