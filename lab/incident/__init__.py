"""The incident of 27 August to 9 September 2026, simulated: the same question, with a known answer."""
