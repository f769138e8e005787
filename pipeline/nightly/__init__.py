"""The nightly job: new files in, old ones out, a certified model trained from yesterday's, published if it is as good.

job         what job.yaml says
intake      new files become shards, old ones retire; the ledger remembers every file
night       one night from intake to publication; whatever stops it, the next run completes it
store       the directory that the job owns
"""
