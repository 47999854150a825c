"""Incidents: named questions, frozen by what was known when they were asked."""
