"""Networks -> milliseconds: measured on this machine, and a table of times to search with."""
