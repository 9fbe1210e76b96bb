"""Networks from outside and to outside: built by name, loaded, exported, described, timed."""
