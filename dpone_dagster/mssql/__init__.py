"""The SQL Server adapter: the target. The only place with T-SQL and its drivers, which load when first needed."""
