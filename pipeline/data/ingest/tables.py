"""Tables on their way into shards: read once to learn what is in their columns, then once more to encode the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.cores import available_cores
from pipeline.data.reading.base import Source
from pipeline.data.reading.choose import open_sources
from pipeline.data.reading.layout import Layout, listed
from pipeline.data.tables.asked import AUTO
from pipeline.errors import DataError
from pipeline.events import Listener, Note

if TYPE_CHECKING:
    from pipeline.data.ingest.ingest import IngestSpec
    from pipeline.data.tables.encoding import Encoding
    from pipeline.data.tables.others import Others


def encoded(sources: list[Source], spec: IngestSpec, listen: Listener) -> tuple[list[Source], IngestSpec]:
    """Return the sources as they are to be read, and the spec with what was learnt of their columns.

    Only tables are touched, and of these not those whose rows are lists; next to rows without names they cannot be
    encoded, for nobody could say which feature is which.
    """
    tables = [source for source in sources if isinstance(getattr(source, "layout", None), Layout)]
    plan, known = spec.reading.table, spec.reading.encoding
    learning: list[Any] = [table for table in tables if table.layout.raw is not None]  # type: ignore[attr-defined]
    if known is not None:
        _refuse_unnamed(sources)
        _refuse_width(spec, known, sources)
        _report(tables, listen)
        return sources, spec
    if not learning and plan is not None and plan.source != AUTO and sources:
        problem = f"has no columns with names (or its rows are lists), and {plan.source} is about such columns"
        raise DataError(f"{problem}; leave --columns out", path=sources[0].path)
    if not learning or plan is None:
        return sources, replace(spec, reading=replace(spec.reading, table=None))
    others = [source for source in sources if source not in learning]
    if others:
        problem = "its features have no names, and the columns of the tables beside it become other features"
        raise DataError(f"{problem}; ingest them apart, or pass --columns none", path=others[0].path)
    from pipeline.data.tables.learn import learn  # noqa: PLC0415 - Arrow's compute, which only tables need
    from pipeline.data.tables.report import report_lines  # noqa: PLC0415 - as above

    encoding = learn(learning, plan, spec.workers or available_cores(), listen)
    _refuse_width(spec, encoding, learning)
    for line in report_lines(encoding):
        listen(Note(line))
    options = replace(spec.options, table=None, encoding=encoding)
    return [table.again(options) for table in learning], replace(spec, reading=options, bias=plan.bias)


def learnt(paths: list[str], spec: IngestSpec, listen: Listener) -> IngestSpec:
    """Return the spec with what all of some files say of their columns, those that cannot be read left out.

    Where none can, or there is nothing to learn, it stays as it is.
    """
    opened: list[Source] = []
    for path in paths if spec.reading.table is not None else ():
        try:
            opened += open_sources([path], spec.options)
        except DataError:  # it will be said when the file is added
            continue
    while opened:
        try:
            return encoded(opened, spec, listen)[1]
        except DataError as error:
            left = [source for source in opened if source.path != error.path]
            if len(left) == len(opened):
                raise
            opened = left
    return spec


def others_of(encoding: Encoding | None) -> Others | None:
    """Return what counts the rows whose values an encoding has no feature for."""
    if encoding is None:
        return None
    from pipeline.data.tables.others import Others  # noqa: PLC0415 - Arrow's compute, which only tables need

    return Others(encoding)


def _refuse_unnamed(sources: list[Source]) -> None:
    """Refuse rows that no encoding can be applied to."""
    for source in sources:
        layout = getattr(source, "layout", None)
        if not isinstance(layout, Layout) or layout.encoding is None:
            problem = "has no columns with names, and the features of the data set are made of such columns"
            raise DataError(f"{problem}; write the rows as a table", path=source.path)


def _refuse_width(spec: IngestSpec, encoding: Encoding, sources: list[Source]) -> None:
    """Refuse another number of features than the columns make."""
    asked = spec.reading.rules.features
    if asked not in (None, encoding.n_features):
        problem = f"--features {asked:,}, but the columns make {encoding.n_features:,}"
        raise DataError(f"{problem}; leave it out", path=sources[0].path if sources else "")


def _report(tables: list[Source], listen: Listener) -> None:
    """Say which columns are new since the encoding was learnt."""
    for table in tables:
        extra = table.layout.extra  # type: ignore[attr-defined]
        if extra:
            listen(Note(f"{table.path}: columns that were not there before are ignored: {listed(list(extra))}"))
