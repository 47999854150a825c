"""Random fleets, faults and damage, judged and held against their content."""
