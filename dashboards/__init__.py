"""Panels over the tables that the collector and the detectors fill. This version ships none; `notify` answers."""
