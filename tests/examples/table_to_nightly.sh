#!/usr/bin/env bash
# From a table to a nightly job: daily files of trips, a file that says what becomes of their columns, three nights.
# Run it in an empty folder, with svmsieve and its Python on the PATH.
set -euo pipefail

# Three days of files, as another program would leave them.
mkdir incoming
python - <<'END'
from pathlib import Path
from random import random, seed

seed(1)
for day in (1, 2, 3):
    lines = ["trip,carrier,leaves,miles,wind,late"]
    for k in range(1500):
        carrier, hour, wind = "ABCDE"[int(5 * random())], int(24 * random()), round(40 * random(), 1)
        late = "yes" if wind / 10 + hour / 5 + 2 * (carrier in "BD") + 3 * random() > 7 else "no"
        gap = k % 50 == 0
        leaves = f"2026-03-{day:02} {hour:02}:15"
        lines.append(f"D{day}T{k},{carrier},{leaves},{int(2000 * random())},{'' if gap else wind},{late}")
    Path(f"incoming/trips-2026-03-{day:02}.csv").write_text("\n".join(lines) + "\n")
END

# What svmsieve would do with the columns; then what we want: of the date the hour alone, and no miles.
svmsieve ingest incoming/trips-2026-03-01.csv --label-column late --out look
svmsieve datasets columns look > suggested.yaml
cat > columns.yaml <<'END'
label: late
id: [trip]
categorical: {columns: [carrier], encode: onehot, min_count: 5}
dates: {columns: [leaves], parts: [hour]}
numeric: {columns: [wind], scale: standard, missing: indicator}
drop: [miles]
bias: 1
END

# The job: a night tries C around yesterday's best, from yesterday's model, and publishes what is no worse.
cat > job.yaml <<'END'
inputs: incoming/trips-*.csv
store: store
reading: {columns: columns.yaml}
window: 30
holdout: 0.2
gate: accuracy >= yesterday - 0.01
expect: {files: 1, rows: 1000}
END

mkdir later && mv incoming/*-02.csv incoming/*-03.csv later
svmsieve nightly job.yaml --date 2026-03-01
mv later/*-02.csv incoming && svmsieve nightly job.yaml --date 2026-03-02
mv later/*-03.csv incoming && svmsieve nightly job.yaml --date 2026-03-03

# What is published predicts rows without labels, and says what speaks for being late.
cut -d, -f1-5 incoming/trips-2026-03-03.csv > new.csv
svmsieve predict store/current new.csv --id trip --out predictions.csv
svmsieve weights store/current --top 5
svmsieve store status store
