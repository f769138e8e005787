"""What run.json says of the data that a run was trained on, and of the models that its steps could start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding


@dataclass(frozen=True)
class ReferenceRecord:
    """A model of another run that steps could start from: its C, its data, the digest of its file."""

    c: float
    fingerprint: str | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataRecord:
    """What run.json says of the data."""

    path: str
    """Where the data lay."""
    fingerprint: str
    """What tells these rows from others."""
    rows: int
    """How many rows there are, those left out of training included."""
    features: int
    """How many features there are, a bias column included."""
    nnz: int | None
    """How many nonzeros there are."""
    bias: float
    """The value of the bias column, the last feature; 0 means that there is none."""
    negative: tuple[str, ...]
    """The labels of the negative class."""
    positive: tuple[str, ...]
    """The labels of the positive class."""
    one_against_rest: bool
    """Whether the negative class is all that is not positive."""
    columns: tuple[str, ...] | None = None
    """The names of the features, the bias column left out; None if they have none."""
    says_columns: bool = True
    """Whether run.json says if the features have names; early runs do not."""
    index_base: int | None = None
    """What svmlight indices counted from; None if the data came from no such text."""
    shards: tuple[tuple[str, int], ...] = ()
    """The digest and the number of rows of each shard; early runs have none."""
    validation: str | None = None
    """The fingerprint of the validation data."""
    reference: tuple[ReferenceRecord, ...] = ()
    """The models of other runs that steps could start from."""
    encoding: Encoding | None = None
    """What made features of the columns of a table; None where they were features as they are."""
    classes: tuple[str, ...] = ()
    """The names of three classes or more; then no label is negative or positive."""

    @classmethod
    def of(
        cls, data: Dataset, validation: Dataset | None = None, reference: tuple[ReferenceRecord, ...] = ()
    ) -> DataRecord:
        """Describe data that are at hand."""
        return cls(
            path=data.path,
            fingerprint=data.fingerprint,
            rows=data.n_rows,
            features=data.n_features,
            nnz=data.nnz,
            bias=data.bias,
            negative=tuple(data.labels.negative),
            positive=tuple(data.labels.positive),
            one_against_rest=data.labels.one_against_rest,
            columns=None if data.columns is None else tuple(data.columns),
            index_base=data.index_base,
            shards=tuple((shard.digest, shard.n_rows) for shard in data.shards),
            validation=None if validation is None else validation.fingerprint,
            reference=reference,
            encoding=data.encoding,
            classes=data.classes,
        )

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> DataRecord:
        """Read what has been checked."""
        labels = item.get("labels") or {}
        negative, positive = (tuple(labels.get(side, ())) for side in ("negative", "positive"))
        others = item.get("reference") or ()
        return cls(
            **{name: item[name] for name in ("path", "fingerprint", "rows", "features", "bias")},
            nnz=item.get("nnz"),
            negative=negative,
            positive=positive,
            one_against_rest=bool(labels.get("one_against_rest", len(negative) > 1)),
            columns=None if item.get("columns") is None else tuple(item["columns"]),
            says_columns="columns" in item,
            index_base=item.get("index_base"),
            shards=tuple((digest, rows) for digest, rows in item.get("shards") or ()),
            validation=item.get("validation"),
            reference=tuple(ReferenceRecord(r["c"], r.get("fingerprint"), r.get("model")) for r in others),
            encoding=stored_table(item.get("table")),
            classes=tuple(item.get("classes") or ()),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a new run.json says of the data."""
        names = ("path", "fingerprint", "rows", "features", "nnz", "bias", "index_base", "validation")
        sides = {"negative": list(self.negative), "positive": list(self.positive)}
        labels = {"labels": {**sides, "one_against_rest": self.one_against_rest}}
        return {name: getattr(self, name) for name in names} | {
            **({"classes": list(self.classes)} if self.classes else labels),
            "columns": None if self.columns is None else list(self.columns),
            **({} if self.encoding is None else {"table": _plain(self.encoding)}),
            "shards": [list(shard) for shard in self.shards],
            "reference": [vars(each) for each in self.reference],
        }


def stored_table(item: Any) -> Encoding | None:
    """Return what run.json says of a table; ValueError where it is something else."""
    if item is None:
        return None
    from pipeline.data.tables.stored import from_json  # noqa: PLC0415 - Arrow's compute, which only tables need

    return from_json(item)


def _plain(encoding: Encoding) -> dict[str, Any]:
    from pipeline.data.tables.stored import to_json  # noqa: PLC0415 - as above

    return to_json(encoding)
