"""A line of the access log that Apache's httpd writes, in its common or its combined format.

As it is written for Java's and for RE2's regular expressions, which agree on it.
"""

DAY_AND_TIME = r"\d{2}/[A-Z][a-z]{2}/[12]\d{3}:\d{2}:\d{2}:\d{2}"
ZONE = r"[+-](?:0\d|1[0-4])[0-5]\d"
QUOTED = r'"(?:[^"\\]|\\.)*"'

LINE = (
    r"^(\S+) \S+ (\S+) "
    rf"\[({DAY_AND_TIME}) ({ZONE})\] "
    r'"(?:[A-Z]+ ([^\s?"]+)(?:[^"\\]|\\.)*|-)" '
    r"\d{3} (?:\d+|-)"
    rf"(?: {QUOTED} {QUOTED})?$"
)
HOST, USER, TIME, OFFSET, PATH = 1, 2, 3, 4, 5
