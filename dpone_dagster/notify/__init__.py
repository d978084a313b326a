"""The channels by which people are told: log, webhook, Slack, mail. Knows neither Dagster nor a database."""
