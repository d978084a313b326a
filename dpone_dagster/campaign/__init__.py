"""The domain: plan, identity, ledger rules, column contract. No I/O, no driver, no Dagster."""
