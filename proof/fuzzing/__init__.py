"""Fuzzing with coverage: inputs that reach new code are kept, changed and tried again.

The invariant of every target: a decoder returns a value or raises one of its documented errors, whatever the
input is. Nothing else may leave it, it may not run for ever, and its memory is bounded by the size of the
input. Where there is a second way to the same result, both must agree.

target.py says what a target is and judges one input; targets/ has the table of targets. libfuzzer.py runs one
of them. corpus/ has the inputs that every run begins with, a file of hexadecimal lines for each target.
"""
