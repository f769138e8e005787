"""The public face, one calling convention: ``import svmsieve``.

    data       a path or URL, a registry name, a ``Dataset``, or arrays and frames, with ``y`` beside them
    passes     on ``scheduler`` (threads, processes, inline, an address), or on an ``engine`` that is open and stays so
    settings   keywords; one that there is not is named, with the nearest that there is

Functions here are thin: what they do is in the rooms below.
"""
