"""What the assets of a campaign are given by Dagster."""
