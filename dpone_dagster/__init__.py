"""Load one large PostgreSQL table once, safely, and hand it over to incremental loads, inside Dagster."""

__version__ = "0.1.0"
