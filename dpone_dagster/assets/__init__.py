"""The assets of a campaign. Thin: they call one use case each and show what it says; no SQL, no rules."""
