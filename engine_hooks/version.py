"""The version of pagewitness, declared once: both distributions read it from here."""

VERSION = "0.1.0"
