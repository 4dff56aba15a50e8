"""From records to what a reader sees: statistics, verdicts on the paper's claims, tables, charts
and the page."""
