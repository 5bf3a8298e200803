"""Memory and disk: alarms, paging out, page checks."""
