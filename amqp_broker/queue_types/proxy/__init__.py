"""A queue whose log is elsewhere: commands go there, effects come back."""
