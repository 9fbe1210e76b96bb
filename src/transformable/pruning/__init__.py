"""The whole job: teacher, method, student, and what was measured."""
