"""The whole job: teacher, method, student, measurements."""
