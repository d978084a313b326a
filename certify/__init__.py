"""`make certify`: the certification procedure against a route of yours. Not part of the package.

What it measures and what its verdict means is in docs/reliability.md.
"""
