"""Text with hashing on a Dask cluster: a bag of documents is hashed, written and trained on by the workers.

    python text_on_dask.py

The cluster is one on this machine; ``Client("tls://scheduler:8786")`` is another, whose workers must see the folder
that the shards go to. Documents never come to this process: workers count and hash the words of their partitions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import dask.bag as db
from distributed import Client, LocalCluster
from sklearn.feature_extraction import FeatureHasher

import svmsieve

COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "that",
    "was",
    "on",
    "are",
    "this",
    "with",
    "from",
    "have",
    "not",
    "but",
    "they",
]
TOPICS = {
    "hardware": ["disk", "cable", "board", "driver", "monitor", "chip"],
    "space": ["orbit", "launch", "moon", "shuttle", "probe"],
}
DOCUMENTS, PARTITIONS = 3000, 6


def document(number: int) -> dict[str, float | str]:
    """Return a made document as counts of its words, and its topic under ``topic``."""
    random = Random(number)
    topic = random.choice(list(TOPICS))
    words = [random.choice(TOPICS[topic] if random.random() < 0.1 else COMMON) for _ in range(30)]
    return {**{f"word={word}": float(words.count(word)) for word in set(words)}, "topic": topic}


def main() -> None:
    """Tune, and predict documents that were not there."""
    hasher = FeatureHasher(n_features=2**18)
    documents = db.range(DOCUMENTS, npartitions=PARTITIONS).map(document)
    new = db.range(500, npartitions=2).map(lambda number: document(DOCUMENTS + number))
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        run = svmsieve.tune(
            documents,
            label="topic",
            hasher=hasher,
            bias=1.0,
            holdout=0.2,
            shards=Path(folder) / "shards",
            scheduler=cluster.scheduler_address,
        )
        print(
            f"C = {run.header.c_best:.4g}, relative gap {run.steps[0].relative_gap:.1e}, {run.header.data.rows:,} rows"
        )
        labels = svmsieve.predict(run, new, hasher=hasher).label  # lazy: the workers predict where documents are
        right = sum(found == made["topic"] for found, made in zip(labels.compute(), new.compute(), strict=True))
        print(f"accuracy on new documents: {right / 500:.3f}")


if __name__ == "__main__":
    main()
