"""Importers: what other schedulers export, read into schedules of ours. Pure: text in, values out."""
