"""The PostgreSQL adapter: source and target. The only place with PostgreSQL's SQL and driver."""
