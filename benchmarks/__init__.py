"""Benchmarks: what each part costs, measured, never asserted.

A benchmark is a module of this package with

- ``TITLE``: the heading of its section;
- ``run() -> dict[str, float | dict[str, float]]``: a row a key. A row is one number, or numbers by column name; the
  unit stands in the name of the row or of the column, e.g. ``"p50 (us)"``. A column named ``to ...`` or ``times ...``
  is a ratio to something of its own row; without one, each row is compared with the first;
- optionally ``GOALS: dict[str, float]``: for some rows, the most that the first number should be.

The module's docstring says what is measured and how, and is printed above the table. ``python -m benchmarks`` runs
them all and writes ``docs/performance.md``.
"""
