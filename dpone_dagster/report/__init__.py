"""The report of a campaign as one HTML page that needs nothing else: no script, no font, no network."""
