"""One folder a campaign."""
