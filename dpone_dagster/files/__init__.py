"""The state backend `local_file`: a campaign's ledger as one JSON file on this machine."""
