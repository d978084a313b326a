"""What the engine asks of a source and a target. Each docstring states what an adapter guarantees.

A `Target` is one connection. Its parts (`fence`, `ledger`, `tables`, `publications`, `history`, `changes`) work on that
one connection, so that a session lock, the rows and their receipt always belong to the same server session.
Every method may raise `ConnectionLost`, `TransientFailure` or `Interrupted`; adapters translate driver errors
once, by explicit error number, and an unknown one is permanent (`DponeError`).
"""
