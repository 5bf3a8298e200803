"""What is behind amq.system: verbs, statistics, definitions."""
