"""AML (Barkan et al., 2024): the attribution model G, its losses and its maps."""
