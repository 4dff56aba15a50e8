"""The language of methods: symbols, losses, policies, projections, and BN Tricks as a rewrite."""
