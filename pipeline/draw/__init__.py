"""Drawing: figures from plain numbers. Only ``canvas`` knows Matplotlib, and imports it when something is drawn."""
