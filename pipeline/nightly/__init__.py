"""The nightly job: new files in, old ones out, a certified model trained from yesterday's, published if it is as good.

job         what job.yaml says
intake      new files become shards, old ones retire; the ledger remembers every file, also those in quarantine
tonight     the model of a night, made from yesterday's and judged beside it
night       one night from intake to publication; killed, the next run completes it; failed, the next one starts afresh
store       the directory that the job owns
standing    is what is published what should be? The exit codes
operate     what an operator does: status, rollback, release, quarantine
"""
